-- Which versions of the outbox's tables are in place. Apart from the application's own migrations.

CREATE TABLE IF NOT EXISTS "main"."outbox_history" (
    "version" INTEGER PRIMARY KEY,
    -- The oldest library that can work with these tables, as the newest version that it knows.
    "min_reader" INTEGER NOT NULL,
    "applied_at" INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
) STRICT;
