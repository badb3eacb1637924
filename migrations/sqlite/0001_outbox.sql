-- The message table, and two small control tables named after it.
--
-- This file is plain SQL for the default names. For another outbox the library puts its table's name
-- in place of the prefix outbox, in all quoted names. Times are milliseconds since 1970, UTC.

CREATE TABLE "main"."outbox" (
    -- The publisher's UUIDv7, lowercase and hyphenated: the idempotency key of whoever handles the
    -- message. A row without one gets a random UUID.
    "id" TEXT PRIMARY KEY NOT NULL
        DEFAULT (lower(printf('%s-%s-4%s-%s%s-%s',
            hex(randomblob(4)), hex(randomblob(2)), substr(hex(randomblob(2)), 2),
            substr('89AB', 1 + (random() & 3), 1), substr(hex(randomblob(2)), 2),
            hex(randomblob(6)))))
        CHECK (length("id") = 36 AND "id" NOT GLOB '*[^0-9a-f-]*' AND length(replace("id", '-', '')) = 32
            AND substr("id", 9, 1) || substr("id", 14, 1) || substr("id", 19, 1) || substr("id", 24, 1) = '----'),
    -- The route: a relay claims only the topics and versions that it serves.
    "topic" TEXT NOT NULL,
    "version" INTEGER NOT NULL DEFAULT 1 CHECK ("version" BETWEEN 1 AND 2147483647),
    -- Ordering and partition key.
    "key" TEXT,
    "payload" TEXT NOT NULL CHECK (json_valid("payload")),
    -- A JSON object of strings.
    "headers" TEXT CHECK ("headers" IS NULL OR json_type("headers") = 'object'),
    "state" TEXT NOT NULL DEFAULT 'pending'
        CHECK ("state" IN ('pending', 'processing', 'delivered', 'dead')),
    -- Claims so far.
    "attempts" INTEGER NOT NULL DEFAULT 0 CHECK ("attempts" BETWEEN 0 AND 2000000000),
    -- Claims in a row that ended without a settle: more than 0 from a claim to its settle.
    "unsettled" INTEGER NOT NULL DEFAULT 0 CHECK ("unsettled" BETWEEN 0 AND 2000000000),
    -- The fencing token: drawn at random by each claim.
    "token" TEXT,
    -- Due from this time on.
    "available_at" INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    -- The deadline of the lease that the last claim took.
    "leased_until" INTEGER,
    -- Unique with the topic while the row exists.
    "dedup_key" TEXT,
    -- The last ten failures: [{"attempt": 1, "at": <milliseconds since 1970>, "text": "..."}].
    "errors" TEXT NOT NULL DEFAULT '[]' CHECK (json_type("errors") = 'array'),
    "redrives" INTEGER NOT NULL DEFAULT 0 CHECK ("redrives" BETWEEN 0 AND 2000000000),
    "created_at" INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    -- Delivered and dead rows age from this time.
    "settled_at" INTEGER,
    -- A row that a relay could not read would stop its whole route: what can be written by hand is
    -- held to what can be read. The last millisecond is that of the year 9999.
    CONSTRAINT "outbox_times" CHECK (
        "available_at" BETWEEN 0 AND 253402300799999
        AND "created_at" BETWEEN 0 AND 253402300799999
        AND ("leased_until" IS NULL OR "leased_until" BETWEEN 0 AND 253402300799999)
        AND ("settled_at" IS NULL OR "settled_at" BETWEEN 0 AND 253402300799999)),
    CONSTRAINT "outbox_leased" CHECK ("unsettled" = 0 OR "leased_until" IS NOT NULL)
) STRICT;

-- What can be claimed, in claim order per route.
CREATE INDEX "main"."outbox_claim" ON "outbox" ("topic", "version", "available_at", "id")
    WHERE "state" = 'pending' AND "unsettled" = 0;

-- What is leased, or was and never settled: where a lapsed lease is found.
CREATE INDEX "main"."outbox_lease" ON "outbox" ("topic", "version", "leased_until")
    WHERE "unsettled" > 0;

-- What waits for a person.
CREATE INDEX "main"."outbox_dead" ON "outbox" ("settled_at")
    WHERE "state" = 'dead';

CREATE UNIQUE INDEX "main"."outbox_dedup" ON "outbox" ("topic", "dedup_key")
    WHERE "dedup_key" IS NOT NULL;

-- Which relays are alive and what they serve: [["topic", version], ...].
CREATE TABLE "main"."outbox_relays" (
    "id" TEXT PRIMARY KEY NOT NULL,
    "routes" TEXT NOT NULL CHECK (json_valid("routes")),
    "started_at" INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "seen_at" INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
) STRICT;
