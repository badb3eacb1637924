-- Which versions of the outbox's tables are in place. Apart from the application's own migrations.

CREATE TABLE IF NOT EXISTS "public"."outbox_history" (
    "version" integer PRIMARY KEY,
    -- The oldest library that can work with these tables, as the newest version that it knows.
    "min_reader" integer NOT NULL,
    "applied_at" timestamptz NOT NULL DEFAULT clock_timestamp()
);
