-- The message table, and the register of relays named after it. For MySQL and MariaDB alike.
--
-- This file is plain SQL for the default names. For another outbox the library puts its table's name in
-- place of the prefix outbox in all quoted names, and its schema before them. Times are UTC.
--
-- Each statement here commits by itself. One that was cut off has left nothing, and all of them can be run again.

CREATE TABLE IF NOT EXISTS `outbox` (
    -- The publisher's UUIDv7: the idempotency key of whoever handles the message. A row without one gets a UUIDv1.
    `id` BINARY(16) NOT NULL DEFAULT (UNHEX(REPLACE(UUID(), '-', ''))) PRIMARY KEY,
    -- The route: a relay claims only the topics and versions that it serves.
    `topic` VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    `version` INT NOT NULL DEFAULT 1 CHECK (`version` >= 1),
    -- Ordering and partition key.
    `key` VARCHAR(1024),
    -- A text: the type JSON of MySQL does not keep large numbers as they are.
    `payload` LONGTEXT NOT NULL CHECK (JSON_VALID(`payload`)),
    -- A JSON object of strings.
    `headers` LONGTEXT CHECK (`headers` IS NULL OR (JSON_VALID(`headers`) AND JSON_TYPE(`headers`) = 'OBJECT')),
    `state` ENUM ('pending', 'processing', 'delivered', 'dead') NOT NULL DEFAULT 'pending',
    -- Claims so far.
    `attempts` INT NOT NULL DEFAULT 0 CHECK (`attempts` BETWEEN 0 AND 2000000000),
    -- Claims in a row that ended without a settle: more than 0 from a claim to its settle.
    `unsettled` INT NOT NULL DEFAULT 0 CHECK (`unsettled` BETWEEN 0 AND 2000000000),
    -- The fencing token: drawn at random by each claim.
    `token` BINARY(16),
    -- Due from this time on.
    `available_at` DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    -- The deadline of the lease that the last claim took.
    `leased_until` DATETIME(6),
    -- Unique with the topic while the row exists, byte for byte. UTF-8.
    `dedup_key` VARBINARY(1024),
    -- The last ten failures: [{"attempt": 1, "at": <milliseconds since 1970>, "text": "..."}].
    `errors` LONGTEXT NOT NULL DEFAULT ('[]') CHECK (JSON_VALID(`errors`) AND JSON_TYPE(`errors`) = 'ARRAY'),
    `redrives` INT NOT NULL DEFAULT 0 CHECK (`redrives` BETWEEN 0 AND 2000000000),
    `created_at` DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    -- Delivered and dead rows age from this time.
    `settled_at` DATETIME(6),

    -- Where the row stands in the index below, which is partial by these two columns: leased, or was and never
    -- settled, by its deadline; pending, by its due time; or settled, by the time it ages from.
    `phase` ENUM ('pending', 'leased', 'processing', 'delivered', 'dead')
        GENERATED ALWAYS AS (IF(`unsettled` > 0 AND `state` IN ('pending', 'processing'), 'leased', `state`)) STORED,
    `phase_at` DATETIME(6) GENERATED ALWAYS AS (
        CASE
            WHEN `unsettled` > 0 AND `state` IN ('pending', 'processing') THEN `leased_until`
            WHEN `state` = 'pending' THEN `available_at`
            ELSE COALESCE(`settled_at`, `created_at`)
        END) STORED,
    -- What waits for a person.
    `died_at` DATETIME(6)
        GENERATED ALWAYS AS (IF(`state` = 'dead', COALESCE(`settled_at`, `created_at`), NULL)) STORED,

    -- A row that a relay could not read would stop its whole route: what can be written by hand is held to what can
    -- be read.
    CHECK (`state` IN ('pending', 'processing', 'delivered', 'dead')),
    CHECK (`available_at` BETWEEN '1970-01-01' AND '9999-12-31'),
    CHECK (`created_at` BETWEEN '1970-01-01' AND '9999-12-31'),
    CHECK (`leased_until` BETWEEN '1970-01-01' AND '9999-12-31'),
    CHECK (`settled_at` BETWEEN '1970-01-01' AND '9999-12-31'),
    CHECK (`unsettled` = 0 OR `leased_until` IS NOT NULL),

    KEY `phase` (`topic`, `version`, `phase`, `phase_at`, `id`),
    KEY `dead` (`died_at`, `id`),
    UNIQUE KEY `dedup` (`topic`, `dedup_key`)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4
    -- Byte for byte, trailing spaces included; each server reads one of the two.
    /*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */;

-- Which relays are alive and what they serve: [["topic", version], ...].
CREATE TABLE IF NOT EXISTS `outbox_relays` (
    `id` BINARY(16) NOT NULL PRIMARY KEY,
    `routes` LONGTEXT NOT NULL CHECK (JSON_VALID(`routes`)),
    `started_at` DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    `seen_at` DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;
