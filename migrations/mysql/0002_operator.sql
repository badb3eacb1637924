-- What an operator works with: topics that are paused, what was discarded and why, and which relay purges.

-- Topics from which no relay claims anything.
CREATE TABLE IF NOT EXISTS `outbox_paused` (
    `topic` VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    `reason` LONGTEXT,
    `paused_at` DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- Work that one relay at a time does: who has it, and until when.
CREATE TABLE IF NOT EXISTS `outbox_duties` (
    `name` VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    `holder` BINARY(16) NOT NULL,
    `held_until` DATETIME(6) NOT NULL
) ENGINE = InnoDB;

-- Dead letters that somebody decided not to deliver: all but their payload and headers.
CREATE TABLE IF NOT EXISTS `outbox_discarded` (
    `id` BINARY(16) NOT NULL PRIMARY KEY,
    `topic` VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    `version` INT NOT NULL,
    `key` VARCHAR(1024),
    `attempts` INT NOT NULL,
    `redrives` INT NOT NULL,
    `errors` LONGTEXT NOT NULL,
    `reason` LONGTEXT NOT NULL,
    `created_at` DATETIME(6) NOT NULL,
    `died_at` DATETIME(6) NOT NULL,
    `discarded_at` DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    KEY `discarded_at` (`discarded_at`, `id`)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;
