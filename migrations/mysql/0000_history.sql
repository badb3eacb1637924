-- Which versions of the outbox's tables are in place. Apart from the application's own migrations.

CREATE TABLE IF NOT EXISTS `outbox_history` (
    `version` INT NOT NULL PRIMARY KEY,
    -- The oldest library that can work with these tables, as the newest version that it knows.
    `min_reader` INT NOT NULL,
    `applied_at` DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB;
