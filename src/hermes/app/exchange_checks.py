"""What the exchange borrows from the policy room: signatures, and the reader of shell."""

from typing import TYPE_CHECKING

from hermes.skills.exchange.sealing import Seal

if TYPE_CHECKING:
    from hermes.policy.signatures import KeyPair


def shell_effects(text: str) -> frozenset[str]:
    from hermes.policy.commands import analyse

    return frozenset(analyse(text).effects)


def check_signature(key: str, signature: str, domain: str, message: bytes) -> bool:
    from hermes.policy.signatures import verify

    try:
        public = bytes.fromhex(key)
    except ValueError:
        return False
    return verify(public, signature, domain, message)


def seal_of(pair: "KeyPair") -> Seal:
    return Seal(key=pair.public.hex(), sign=pair.sign)
