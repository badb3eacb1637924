//! The table's name: checked once, quoted everywhere.

use crate::Error;

/// Where an outbox lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// None is the database's default schema.
    schema: Option<String>,
    name: String,
}

/// Postgres cuts identifiers after 63 bytes; the longest name derived from the table's adds 13.
const LONGEST_NAME: usize = 50;
const LONGEST_SCHEMA: usize = 63;

impl Default for Table {
    fn default() -> Self {
        Self {
            schema: None,
            name: "outbox".to_owned(),
        }
    }
}

impl Table {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let (schema, name) = match text.split_once('.') {
            Some((schema, name)) => (Some(schema), name),
            None => (None, text),
        };
        if let Some(schema) = schema {
            identifier(text, "schema", schema, LONGEST_SCHEMA)?;
        }
        identifier(text, "table", name, LONGEST_NAME)?;
        Ok(Self {
            schema: schema.map(str::to_owned),
            name: name.to_owned(),
        })
    }

    /// The schema's name, if it is not the database's default.
    pub(crate) fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// The table's own name.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Puts the names into SQL written for the default ones: of the quoted names, the default schema
    /// becomes this one's, and the prefix `outbox` the table's name.
    ///
    /// One pass, so that no name is taken for another; [`parse`](Self::parse) lets no quote through.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(crate) fn render(&self, sql: &str, default_schema: &str) -> String {
        let schema = self.schema.as_deref().unwrap_or(default_schema);
        let mut rendered = String::with_capacity(sql.len() + 64);
        for (n, part) in sql.split('"').enumerate() {
            if n > 0 {
                rendered.push('"');
            }
            let quoted = n % 2 == 1;
            match part.strip_prefix("outbox") {
                _ if quoted && part == default_schema => rendered.push_str(schema),
                Some(rest) if quoted => {
                    rendered.push_str(&self.name);
                    rendered.push_str(rest);
                }
                _ => rendered.push_str(part),
            }
        }
        rendered
    }

    /// The same for SQL whose names stand in backticks, without a schema. All that begin with `outbox` are tables'.
    #[cfg(feature = "mysql")]
    pub(crate) fn render_in_backticks(&self, sql: &str) -> String {
        let mut rendered = String::with_capacity(sql.len() + 64);
        for (n, part) in sql.split('`').enumerate() {
            if n > 0 {
                rendered.push('`');
            }
            match part.strip_prefix("outbox") {
                Some(rest) if n % 2 == 1 => {
                    if let Some(schema) = &self.schema {
                        rendered.push_str(schema);
                        rendered.push_str("`.`");
                    }
                    rendered.push_str(&self.name);
                    rendered.push_str(rest);
                }
                _ => rendered.push_str(part),
            }
        }
        rendered
    }
}

fn identifier(text: &str, what: &str, name: &str, longest: usize) -> Result<(), Error> {
    let reason = if name.is_empty() {
        format!("the {what}'s name is empty")
    } else if name.len() > longest {
        format!(
            "the {what}'s name has {} bytes, at most {longest} are allowed",
            name.len()
        )
    } else if name.starts_with(|c: char| c.is_ascii_digit()) {
        format!("the {what}'s name starts with a digit")
    } else if let Some(bad) = name
        .chars()
        .find(|c| !(c.is_alphanumeric() || matches!(c, '_' | '-')))
    {
        format!("the {what}'s name contains {bad:?}; letters, digits, `_` and `-` are allowed")
    } else {
        return Ok(());
    };
    Err(Error::config(format!(
        "`{text}` is not a table name: {reason}; give `table` or `schema.table`"
    )))
}
