-- Needs pgvector. Models have different dimensions, so each gets an index of its own when it is
-- large enough to need one.
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE hermes.embedding(
    model text NOT NULL,
    seq bigint NOT NULL,
    vector halfvec NOT NULL,
    PRIMARY KEY (model, seq)
);
-- Read in full by an exact scan: kept in the row and not beside it.
ALTER TABLE hermes.embedding ALTER COLUMN vector SET STORAGE PLAIN;
