-- What can be found: a projection of hermes.event that can be thrown away and made anew.
CREATE TABLE hermes.line(
    seq bigint PRIMARY KEY,
    run text NOT NULL,
    position integer NOT NULL,
    at bigint NOT NULL,
    kind text NOT NULL,
    role text NOT NULL,
    fact text NOT NULL DEFAULT '',
    -- Stems made by us, the same as in the embedded index: A the text, B identifiers and speaker,
    -- C what stands around it, D dates and errors.
    words tsvector NOT NULL,
    gone boolean NOT NULL DEFAULT false,
    confirmed bigint,
    ended bigint
);
CREATE UNIQUE INDEX line_in_run ON hermes.line(run text_pattern_ops, position);
CREATE INDEX line_by_word ON hermes.line USING gin(words);
CREATE INDEX line_by_fact ON hermes.line(fact) WHERE fact <> '';
CREATE INDEX line_by_time ON hermes.line(at);
-- Frequent words are known to the planner, and through it to us.
ALTER TABLE hermes.line ALTER COLUMN words SET STATISTICS 500;

-- Runs that were deleted: what is still written in them is not found either.
CREATE TABLE hermes.gone_run(run text PRIMARY KEY);

CREATE TABLE hermes.searched(
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    upto bigint NOT NULL,
    digest bytea NOT NULL,
    shape integer NOT NULL
);
INSERT INTO hermes.searched(upto, digest, shape) VALUES (0, '', 1);
