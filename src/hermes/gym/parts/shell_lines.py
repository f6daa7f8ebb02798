"""Lines of bash that several scenarios need, for hosts that have no curl."""


def ask_often(port: int, path: str, times: int, *, wanted: str = "") -> str:
    """Requests one after the other, once somebody listens; with `wanted` each must say so."""
    heard = f'case "$said" in *{wanted!r}*) ;; *) echo "$said"; exit 1 ;; esac; ' if wanted else ""
    return (
        f"for try in $(seq 100); do (: <>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && break; "
        f"sleep 0.05; done; for round in $(seq {times}); do "
        f"exec 3<>/dev/tcp/127.0.0.1/{port} || exit 1; "
        f"printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3; said=$(timeout 3 cat <&3); exec 3>&-; "
        f"{heard}done"
    )


def moves(question: str, *, within: float = 0.8) -> str:
    """Ends well as soon as the number that `question` prints has grown."""
    rounds = round(within / 0.1)
    return (
        f"before=$({question}); for try in $(seq {rounds}); do sleep 0.1; now=$({question}); "
        '[ "$now" -gt "$before" ] && exit 0; done; echo "still $now"; exit 1'
    )
