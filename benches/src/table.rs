//! Medians, spreads and ratios, as a table in Markdown.

/// The figures of one contestant, one per round.
#[derive(Debug, Default, Clone)]
pub struct Figures(Vec<f64>);

impl Figures {
    /// Adds a round.
    pub fn push(&mut self, figure: f64) {
        self.0.push(figure);
        self.0.sort_by(f64::total_cmp);
    }

    /// The middle one; of an even number the later one.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.0.get(self.0.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// The median, and the least and the most.
    #[must_use]
    pub fn spread(&self, decimals: usize) -> String {
        let figure = |figure: Option<&f64>| number(figure.copied().unwrap_or(f64::NAN), decimals);
        match self.0.len() {
            0 => "-".to_owned(),
            1 => number(self.median(), decimals),
            _ => format!(
                "{} ({} to {})",
                number(self.median(), decimals),
                figure(self.0.first()),
                figure(self.0.last())
            ),
        }
    }
}

/// With a comma between thousands.
#[must_use]
pub fn number(figure: f64, decimals: usize) -> String {
    if figure.is_nan() {
        return "-".to_owned();
    }
    let text = format!("{figure:.decimals$}");
    let (whole, rest) = text.find('.').map_or((&*text, ""), |at| text.split_at(at));
    let mut grouped = String::new();
    for (n, digit) in whole.chars().enumerate() {
        if n > 0 && (whole.len() - n) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

/// Prints a table.
pub fn print(title: &str, columns: &[&str], rows: &[Vec<String>]) {
    println!("\n## {title}\n\n| {} |", columns.join(" | "));
    println!("|{}", "---|".repeat(columns.len()));
    for row in rows {
        println!("| {} |", row.join(" | "));
    }
}
