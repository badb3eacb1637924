-- The message table, and two small control tables named after it.
--
-- This file is plain SQL for the default names. For another outbox the library puts its schema in
-- place of public, and its table's name in place of the prefix outbox, in all quoted names.

CREATE TABLE "public"."outbox" (
    -- The publisher's UUIDv7: the idempotency key of whoever handles the message.
    "id" uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    -- The route: a relay claims only the topics and versions that it serves.
    "topic" text NOT NULL,
    "version" integer NOT NULL DEFAULT 1 CHECK ("version" >= 1),
    -- Ordering and partition key.
    "key" text,
    "payload" json NOT NULL,
    -- A JSON object of strings.
    "headers" json CHECK (json_typeof("headers") = 'object'),
    "state" text NOT NULL DEFAULT 'pending'
        CHECK ("state" IN ('pending', 'processing', 'delivered', 'dead')),
    -- Claims so far.
    "attempts" integer NOT NULL DEFAULT 0 CHECK ("attempts" BETWEEN 0 AND 2000000000),
    -- Claims in a row that ended without a settle: more than 0 from a claim to its settle.
    "unsettled" integer NOT NULL DEFAULT 0 CHECK ("unsettled" BETWEEN 0 AND 2000000000),
    -- The fencing token: drawn at random by each claim.
    "token" uuid,
    -- Due from this time on.
    "available_at" timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The deadline of the lease that the last claim took.
    "leased_until" timestamptz,
    -- Unique with the topic while the row exists.
    "dedup_key" text,
    -- The last ten failures: [{"attempt": 1, "at": <milliseconds since 1970>, "text": "..."}].
    "errors" jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof("errors") = 'array'),
    "redrives" integer NOT NULL DEFAULT 0 CHECK ("redrives" BETWEEN 0 AND 2000000000),
    "created_at" timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Delivered and dead rows age from this time.
    "settled_at" timestamptz,
    -- A row that a relay could not read would stop its whole route: what can be written by hand is
    -- held to what can be read.
    CONSTRAINT "outbox_times" CHECK (
        "available_at" BETWEEN '1970-01-01 00:00:00+00' AND '9999-12-31 00:00:00+00'
        AND "created_at" BETWEEN '1970-01-01 00:00:00+00' AND '9999-12-31 00:00:00+00'
        AND "leased_until" BETWEEN '1970-01-01 00:00:00+00' AND '9999-12-31 00:00:00+00'
        AND "settled_at" BETWEEN '1970-01-01 00:00:00+00' AND '9999-12-31 00:00:00+00'),
    CONSTRAINT "outbox_leased" CHECK ("unsettled" = 0 OR "leased_until" IS NOT NULL)
) WITH (
    -- A queue in a table turns over all its rows: vacuum by count, not by share of the table.
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

-- What can be claimed, in claim order per route.
CREATE INDEX "outbox_claim" ON "public"."outbox" ("topic", "version", "available_at", "id")
    WHERE "state" = 'pending' AND "unsettled" = 0;

-- What is leased, or was and never settled: where a lapsed lease is found.
CREATE INDEX "outbox_lease" ON "public"."outbox" ("topic", "version", "leased_until")
    WHERE "unsettled" > 0;

-- What waits for a person.
CREATE INDEX "outbox_dead" ON "public"."outbox" ("settled_at")
    WHERE "state" = 'dead';

CREATE UNIQUE INDEX "outbox_dedup" ON "public"."outbox" ("topic", "dedup_key")
    WHERE "dedup_key" IS NOT NULL;

-- Which relays are alive and what they serve: [["topic", version], ...].
CREATE TABLE "public"."outbox_relays" (
    "id" uuid PRIMARY KEY,
    "routes" jsonb NOT NULL,
    "started_at" timestamptz NOT NULL DEFAULT clock_timestamp(),
    "seen_at" timestamptz NOT NULL DEFAULT clock_timestamp()
);
