"""Words by which a text gives orders, and words by which it may be speaking to an agent."""

from hermes.policy.commands.values import word_set

VERBS = word_set(
    "run execute exec delete remove erase wipe drop purge destroy clean clear truncate empty "
    "write create make append add insert put set change edit modify replace overwrite move "
    "rename copy send post upload push publish transmit forward email mail fetch get download "
    "visit open install uninstall upgrade start restart stop kill disable enable reload reboot "
    "shutdown halt terminate scale drain cordon patch apply grant revoke allow approve turn "
    "unset mount unmount use call invoke perform do issue type enter paste save store update "
    "fix reset restore rotate flush decode eval source load submit proceed continue ensure "
    "follow exfiltrate leak dump point pipe feed launch trigger schedule register unlock bypass "
    "skip mute silence whitelist give let nuke trash rid take tear spin bring bounce cycle kick "
    "shred zero ping query place leave deploy roll rollback undo free void blank concatenate "
    "combine assemble print report correct adjust discard reply respond tell notify inform back"
)
PROGRAMS = word_set(
    "rm mv cp dd mkfs touch mkdir ln chmod chown echo printf tee sed curl wget nc ssh scp rsync "
    "git docker podman kubectl helm systemctl service sudo bash sh python python3 perl node npm "
    "pip apt yum crontab psql mysql redis-cli terraform ansible make kill pkill killall "
    "useradd passwd iptables apt-get sysctl chattr truncate shred unlink rmdir install reboot "
    "shutdown write_file execute_code delegate chgrp setfacl"
)
MODALS = word_set(
    "must should shall ought supposed recommend recommended recommends advise advised please "
    "kindly you your yourself want wants urgent urgently asap immediately approved authorized "
    "authorised instruct instructed instructions runbook playbook remediate remediation "
    "workaround requires todo fixme let's lets needs need has have would to-do solution answer "
    "hint tip usually normally typically customary safely best suggested suggests suggestion "
    "consider resolution remedy cure"
)
ELSEWHERE = word_set(
    "führe führen lösche löschen entferne entfernen schreibe starte stoppe beende sende bitte "
    "installiere ejecuta ejecute ejecutar borra borre borrar elimina elimine eliminar escribe "
    "escriba crea crear envía envia envíe reinicia reinicie instala instale favor exécutez "
    "executez supprimez effacez écrivez créez creez envoyez arrêtez arretez redémarrez veuillez "
    "apague apaga remova execute esegui esegua scrivi invia avvia cancella elimini verwijder voer "
    "usuń usun uruchom wykonaj skasuj sil çalıştır hapus jalankan tolong poista suorita radera "
    "kör slet udfør lancez ponga detén detenga șterge rulează kérlek töröld smaž spusťte xóa chạy"
)
TRIGGERS = word_set(
    "ignore ignoring ignored disregard forget override supersede developer assistant human ai "
    "agent agents llm autonomous hermes bot copilot automation pretend roleplay role-play role "
    "jailbreak dan you act approved authorized authorised cleared signed approval approvals "
    "confirm confirmation confirming permission ask asking tell mention mentioning report notify "
    "inform terminal write_file execute_code delegate bash shell tool_call tool_calls tool_use "
    "tool_result toolcall tooluse function_call function_calls arguments inst im_start im_end "
    "invoke prompt instruction instructions policies allowlist allow-list memory skill audit env "
    "base64 base32 base hex rot13 rot-13 rot reverse reversed backward backwards cipher encoded "
    "decode decoded decoding spelled display font-size visibility color pre-approved preapproved "
    "system untrusted end"
)
LABELS = word_set(
    "run execute exec do fix command delete remove type enter use try action call combine join "
    "concatenate assemble apply"
)
"""With a colon after them still an order, where other words are the name of who complains."""
SYSTEM_CALLS = word_set("open write read mkdir rename load call get post set start stop create")
"""Verbs that stand in error messages as what was being done."""
