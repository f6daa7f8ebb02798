"""A consumer waits too long between two jobs: the queue grows while the processor is idle."""

from hermes.gym.scenario_builder import (
    ScenarioBuilder,
    build_scenario,
    other_settings_unchanged,
    script_check,
)


def draw(build: ScenarioBuilder) -> None:
    rng = build.rng
    app, producer = build.draw_services(2)
    mark = rng.token()
    key = rng.pick(("pause_ms", "delay_ms", "throttle_ms", "wait_ms", "idle_ms"))
    right, wrong = rng.pick((0, 1, 2)), rng.number(900, 4000)
    queue, done = f"/var/spool/{app.name}", f"{app.data}/done.log"

    build.start(app, build.source("consumer.py.in", key=key), working=build.wording("working"))
    conf = build.settings(app, port=app.port, queue=queue, done=done, mark=mark, **{key: right})
    build.file(done)
    # At a signal it sends a wave of jobs.
    build.start(producer, build.source("producer.py.in"))
    build.settings(producer, queue=queue)
    build.folders(queue)

    burst = (
        f"last() {{ {{ ls {queue}; cat {done}; }} | grep 'job$' | sort | tail -n 1"
        " | tr -dc 0-9; }; before=$((10#0$(last)));"
        f" kill -USR1 $(systemctl show -p MainPID --value {producer.name}); for n in $(seq 200); do"
        " test $((10#0$(last))) -ge $((before + 70)) && break; sleep 0.02; done"
    )
    # The queue first: a job that is finished in between is then counted twice, not missed.
    all_done = script_check(
        "every job is done or waits",
        f"all=$(ls {queue}; cat {done}); all=$(grep 'job$' <<< \"$all\" | sort -u);"
        ' test -z "$all" && exit; last=$(tail -n 1 <<< "$all"); have=$(wc -l <<< "$all");'
        " echo $last $have; test $((10#${last%.job})) -eq $have",
    )
    build.alert("P2", count=rng.number(70, 900))
    build.symptoms(script_check("the queue is short", f"test $(ls {queue} | wc -l) -lt 30"))
    build.healthy(app.http("the consumer answers", contains=mark))
    build.inject(
        build.changes(),
        build.history(f"vi {app.conf}", app.restart),
        app.put_and_restart(key, wrong),
        burst,
    )
    build.trigger(restart=(app.unit,), script=burst)
    build.collateral(
        producer.undisturbed("the producer was left alone"),
        ("the settings of the producer", producer.conf),
        other_settings_unchanged("the other settings of the consumer", conf, key),
        all_done,
    )
    build.fault(
        component=(app.conf, app.name, app.conf.rpartition("/")[2]),
        mechanism=f"slow, throttle, pause, delay, {key}",
        value=(f"{wrong}", f"{key}{app.sign}{wrong}"),
    )
    build.responses(
        reference=(app.put(key, right), app.restart),
        relief=f"timeout 5 {app.command} --drain",
        shortcut=f"rm -f {queue}/*; {app.put(key, right)}; {app.restart}",
    )


SCENARIO = build_scenario(
    __file__, draw, "jobs", "a consumer that pauses between jobs lets its queue grow"
)
