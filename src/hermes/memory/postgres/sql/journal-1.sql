-- Kept apart from whatever else lives in the database.
CREATE TABLE hermes.event(
    seq bigint PRIMARY KEY,
    at bigint NOT NULL,
    run text NOT NULL,
    kind text NOT NULL,
    digest bytea NOT NULL,
    -- Text and not jsonb: the digest is over these very characters.
    body text,
    -- Hash of a body that was purged.
    hash bytea,
    CHECK ((body IS NULL) <> (hash IS NULL))
);
CREATE INDEX event_by_run ON hermes.event(run, seq, kind);
CREATE INDEX event_by_kind ON hermes.event(kind, seq);
CREATE INDEX event_by_time ON hermes.event(at);

-- Numbers that a salvage could not save, in a journal that was moved here.
CREATE TABLE hermes.gap(first bigint PRIMARY KEY, last bigint NOT NULL);

-- One row: the newest number and its digest. Whoever appends holds its lock until the commit, so
-- that numbers become visible in their order.
CREATE TABLE hermes.head(
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    last bigint NOT NULL,
    digest bytea NOT NULL
) WITH (fillfactor = 10);
INSERT INTO hermes.head(last, digest) VALUES (0, decode(repeat('00', 32), 'hex'));

-- The last group of each writer: how one whose acknowledgement was lost learns what became of it.
CREATE TABLE hermes.writer(
    id uuid PRIMARY KEY,
    ticket bigint NOT NULL,
    first bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

-- Appends a group, or finds that it is there already. NULL: a later group of this writer is there,
-- so this one is a straggler from a broken connection and must not come after it.
CREATE FUNCTION hermes.append(
    wanted_version integer, by_writer uuid, by_ticket bigint,
    ats bigint[], runs text[], kinds text[], marks bytea[], bodies text[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
    chain bytea;
    start bigint;
    known record;
    item record;
BEGIN
    SELECT last, digest INTO newest, chain FROM hermes.head FOR UPDATE;
    IF (SELECT version FROM hermes.component WHERE name = 'journal') <> wanted_version THEN
        RAISE EXCEPTION 'migrated by a later version' USING ERRCODE = 'HM001';
    END IF;
    SELECT ticket, first INTO known FROM hermes.writer WHERE id = by_writer;
    IF known.ticket >= by_ticket THEN
        RETURN CASE WHEN known.ticket = by_ticket THEN known.first END;
    END IF;
    start := newest + 1;
    FOR item IN SELECT * FROM unnest(ats, runs, kinds, marks, bodies) AS u(at, run, kind, mark, body)
    LOOP
        newest := newest + 1;
        chain := sha256(chain || sha256(convert_to(item.body, 'UTF8')) || item.mark);
        INSERT INTO hermes.event(seq, at, run, kind, digest, body)
        VALUES (newest, item.at, item.run, item.kind, chain, item.body);
    END LOOP;
    UPDATE hermes.head SET last = newest, digest = chain;
    INSERT INTO hermes.writer(id, ticket, first) VALUES (by_writer, by_ticket, start)
    ON CONFLICT (id) DO UPDATE SET ticket = excluded.ticket, first = excluded.first, at = now();
    PERFORM pg_notify('hermes_journal', newest::text);
    RETURN start;
END
$$;
