"""A dead process left its lock: the worker waits for it while the health page is green."""

import json

from hermes.gym.scenario_builder import ScenarioBuilder, ScriptCheck, ServiceLayout, build_scenario

SERVICE_PROGRAM = """\
import signal

conf = settings(sys.argv[1])
queue, done, lock, factor = conf["queue"], conf["done"], conf["lock"], int(conf["factor"])
busy = threading.Lock()

def take_lock():
    tries = 0
    while True:
        busy.acquire()
        try:
            file = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            os.write(file, b"%d\\n" % os.getpid())
            return os.close(file)
        except FileExistsError:
            busy.release()
        if tries % 50 == 0:
            log("INFO", %%waiting%%.format(lock=lock))
        tries += 1
        time.sleep(0.02)

def let_go():
    os.unlink(lock)
    busy.release()

def finish(name):
    number = int(open(f"{queue}/{name}").read())
    with open(f"{done}/.{name}", "w") as file:
        json.dump({"job": name, "result": number * factor}, file)
    os.replace(f"{done}/.{name}", f"{done}/{name}")
    os.unlink(f"{queue}/{name}")

def waiting():
    return sorted(name for name in os.listdir(queue) if not name.startswith("."))

def work():
    while True:
        if waiting():
            take_lock()
            for name in waiting():
                finish(name)
            let_go()
        time.sleep(0.03)

def submit(name, number):
    with open(f"{queue}/.{name}", "w") as file:
        file.write(number)
    os.replace(f"{queue}/.{name}", f"{queue}/{name}")
    return 202, {"queued": name}

def answer(path):
    words = path.strip("/").split("/")
    if words[0] == "submit":
        return submit(words[1], words[2])
    if words[0] == "result":
        if os.path.exists(f"{done}/{words[1]}"):
            return 200, json.load(open(f"{done}/{words[1]}"))
        return 404, {"error": "not done yet"}
    return 200, {"status": "ok", "queued": len(waiting())}

def leave(*_):
    busy.acquire()
    os._exit(0)

signal.signal(signal.SIGTERM, leave)
threading.Thread(target=work, daemon=True).start()
serve(int(conf["port"]), answer)
"""


def _job_completes_script(layout: ServiceLayout, factor: int) -> str:
    """Submits a job and compares its result."""
    return f"""python3 -S - <<'END'
import os, socket, sys, time
def ask(path):
    with socket.create_connection(("127.0.0.1", {layout.port}), 2) as line:
        line.sendall(f"GET {{path}} HTTP/1.0\\r\\n\\r\\n".encode())
        heard = b""
        while piece := line.recv(65536):
            heard += piece
    return heard
name = f"check{{time.time_ns()}}"
ask(f"/submit/{{name}}/7")
for _ in range(100):
    if b'"result": {7 * factor}' in ask(f"/result/{{name}}"):
        sys.exit(0)
    time.sleep(0.02)
sys.exit("no result")
END"""


def draw(build: ScenarioBuilder) -> None:
    rng, app = build.rng, build.draw_service()
    factor, dead = rng.number(3, 99), rng.number(21_000, 32_000)
    queue = f"{app.data}/{rng.pick(('queue', 'jobs', 'todo', 'spool'))}"
    done = f"{app.data}/{rng.pick(('done', 'results', 'finished'))}"
    folder = rng.pick(("/run/lock", "/var/lock/apps", app.data, f"/run/{app.name}"))
    lock = f"{folder}/{rng.pick((app.name, 'worker', 'batch', f'{app.name}-queue'))}.lock"
    other_lock = f"/var/lock/apps/{build.neighbour.layout.name}.lock"
    build.start(app, SERVICE_PROGRAM, waiting=build.wording("waiting"))
    jobs = {f"{rng.word()}{n}": n for n in rng.some(range(100, 999), rng.number(3, 6))}
    old = {f"{rng.word()}{n}": n for n in rng.some(range(1000, 1999), 3)}
    build.settings(app, port=app.port, queue=queue, done=done, lock=lock, factor=factor)
    for name, n in old.items():
        build.file(f"{app.data}/archive/{name}", json.dumps({"result": n * factor}))
    build.file(other_lock, "1\n")
    build.folders(queue, done, folder)

    put = " && ".join(
        f"echo {n} > {queue}/.{j} && mv {queue}/.{j} {queue}/{j}" for j, n in jobs.items()
    )
    build.alert("P2")
    build.healthy(
        app.http("it answers", "/health"),
        ScriptCheck(name="jobs are worked off", script=_job_completes_script(app, factor)),
        app.runs(),
    )
    build.symptoms(
        *(app.http(f"{j} is done", f"/result/{j}", f": {n * factor}}}") for j, n in jobs.items()),
        healthy=False,
    )
    build.inject(
        build.changes(build.wording("causes", service=app.name)),
        f"for i in $(seq 100); do (set -C; echo {dead} > {lock}) 2>/dev/null && break; "
        f"sleep 0.01; done; {put}",
    )
    build.collateral(
        ("older results", f"{app.data}/archive"),
        ("the lock of somebody else", other_lock),
        ("the program", app.program),
        ("its settings", app.conf),
    )
    build.fault(
        component=(lock, lock.rpartition("/")[2]),
        mechanism="stale lock, stale, left behind, orphan, dead process, deadlock",
        value=(lock, f"{dead}"),
    )
    build.responses(
        reference=f"test -d /proc/{dead} || rm {lock}",
        relief=app.restart,
        shortcut=f"rm -f {lock} {queue}/*; {app.restart}",
    )
    build.traffic("/health")


SCENARIO = build_scenario(
    __file__,
    draw,
    "process",
    "a worker waits for a lock whose owner is dead; the queue grows, health stays green",
)
