//! One Markdown file.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

/// A Markdown file, taken apart line by line.
#[derive(Clone, Debug)]
pub struct Document {
    /// Where it lies.
    pub path: PathBuf,
    lines: Vec<Line>,
    fences: Vec<Fence>,
}

#[derive(Clone, Debug)]
struct Line {
    /// Counts from 1.
    number: usize,
    text: String,
}

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// What stands behind the opening fence: `console run`.
    pub info: String,
    /// Line of the opening fence, counting from 1.
    pub line: usize,
    /// The lines between the fences.
    pub content: Vec<String>,
}

/// Every document below `root`, without what a build left there.
///
/// # Panics
///
/// If a folder or a file cannot be read: the tests would pass over it.
#[must_use]
pub fn documents(root: &Path) -> Vec<Document> {
    let mut found = Vec::new();
    collect(root, &mut found);
    found.sort();
    found.into_iter().map(Document::read).collect()
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
    {
        let path = entry
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            collect(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

impl Document {
    fn read(path: PathBuf) -> Self {
        let text =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self::parse(path, &text)
    }

    /// Takes a text apart as if it lay at `path`.
    #[must_use]
    pub fn parse(path: PathBuf, text: &str) -> Self {
        let mut document = Self {
            path,
            lines: Vec::new(),
            fences: Vec::new(),
        };
        let mut open: Option<(String, Fence)> = None;
        for (index, text) in text.lines().enumerate() {
            let number = index + 1;
            let ticks = fence_ticks(text);
            match &mut open {
                Some((opening, fence))
                    if ticks.starts_with(opening.as_str()) && text.trim() == ticks =>
                {
                    document.fences.push(fence.clone());
                    open = None;
                }
                Some((_, fence)) => fence.content.push(text.to_owned()),
                None if ticks.is_empty() => document.lines.push(Line {
                    number,
                    text: text.to_owned(),
                }),
                None => {
                    let info = text.trim_start()[ticks.len()..].trim().to_owned();
                    open = Some((
                        ticks.to_owned(),
                        Fence {
                            info,
                            line: number,
                            content: Vec::new(),
                        },
                    ));
                }
            }
        }
        document
    }

    /// Fenced blocks in order.
    #[must_use]
    pub fn fences(&self) -> &[Fence] {
        &self.fences
    }

    /// The anchors that its headings can be reached by.
    #[must_use]
    pub fn anchors(&self) -> Vec<String> {
        let mut seen = HashMap::new();
        let headings = self.lines.iter().filter_map(|line| heading(&line.text));
        headings
            .map(|title| numbered(anchor(title), &mut seen))
            .collect()
    }

    /// Targets of all links, each with its line.
    #[must_use]
    pub fn links(&self) -> Vec<(usize, String)> {
        self.of_each_line(|text| link_targets(&without_code(text)))
    }

    /// Inline code, each with its line.
    #[must_use]
    pub fn code(&self) -> Vec<(usize, String)> {
        self.of_each_line(inline_code)
    }

    /// Cells of every table row, each row with its line. The rows of names and dashes are left
    /// out.
    #[must_use]
    pub fn table_rows(&self) -> Vec<(usize, Vec<String>)> {
        let cells = |text: &str| -> Vec<String> {
            text.trim()
                .trim_matches('|')
                .split(" | ")
                .map(|cell| cell.trim().to_owned())
                .collect()
        };
        let is_row = |text: &str| text.trim_start().starts_with('|');
        let is_rule =
            |text: &str| is_row(text) && text.chars().all(|letter| "|-: ".contains(letter));
        let mut rows = Vec::new();
        for pair in self.lines.windows(2) {
            let [line, next] = pair else { continue };
            if is_row(&line.text) && !is_rule(&line.text) && !is_rule(&next.text) {
                rows.push((line.number, cells(&line.text)));
            }
        }
        rows
    }

    /// The same document, cut to what stands below the heading `title` up to the next heading of
    /// its rank.
    #[must_use]
    pub fn section(&self, title: &str) -> Option<Self> {
        let start = self
            .lines
            .iter()
            .position(|line| heading(&line.text) == Some(title))?;
        let rank = heading_rank(&self.lines[start].text);
        let inside =
            |line: &&Line| heading(&line.text).is_none() || heading_rank(&line.text) > rank;
        let lines: Vec<_> = self.lines[start + 1..]
            .iter()
            .take_while(inside)
            .cloned()
            .collect();
        let (first, last) = (
            self.lines[start].number,
            lines.last().map_or(0, |line| line.number),
        );
        let fences = self
            .fences
            .iter()
            .filter(|fence| (first..=last).contains(&fence.line))
            .cloned()
            .collect();
        Some(Self {
            path: self.path.clone(),
            lines,
            fences,
        })
    }

    fn of_each_line(&self, find: impl Fn(&str) -> Vec<String>) -> Vec<(usize, String)> {
        let of_line = |line: &Line| {
            let number = line.number;
            find(&line.text)
                .into_iter()
                .map(move |found| (number, found))
                .collect::<Vec<_>>()
        };
        self.lines.iter().flat_map(of_line).collect()
    }
}

/// The run of backticks that opens or closes a fence; empty for any other line.
fn fence_ticks(text: &str) -> &str {
    let text = text.trim_start();
    let length = text.len() - text.trim_start_matches('`').len();
    if length >= 3 { &text[..length] } else { "" }
}

fn heading_rank(text: &str) -> usize {
    text.len() - text.trim_start_matches('#').len()
}

fn heading(text: &str) -> Option<&str> {
    let rank = heading_rank(text);
    text[rank..]
        .strip_prefix(' ')
        .filter(|_| (1..=6).contains(&rank))
        .map(str::trim)
}

/// The anchor a forge gives a heading: lower case, hyphens for spaces, no punctuation.
fn anchor(title: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || "-_ ".contains(*letter);
    title
        .chars()
        .filter(kept)
        .flat_map(char::to_lowercase)
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

/// The second heading of the same text gets `-1` behind it.
fn numbered(anchor: String, seen: &mut HashMap<String, usize>) -> String {
    let count = seen.entry(anchor.clone()).or_default();
    *count += 1;
    if *count == 1 {
        anchor
    } else {
        format!("{anchor}-{}", *count - 1)
    }
}

fn inline_code(text: &str) -> Vec<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// `[text](target)` and `[label]: target`.
fn link_targets(text: &str) -> Vec<String> {
    let inline = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.trim().to_owned());
    let reference = text
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "))
        .map(|(_, target)| target.trim().to_owned());
    inline.chain(reference).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# One\n\n## Two words, `code`\n\nsee [a](b.md#c) and `[x](no.md)`, `make test`\n\n\
        ```console run\n$ [y](neither.md)\n```\n\n## Two words, `code`\n\n| name | held by |\n|---|---|\n| a | `b` |\n\nend\n";

    fn document() -> Document {
        Document::parse("x.md".into(), TEXT)
    }

    #[test]
    fn headings_become_anchors() {
        assert_eq!(
            document().anchors(),
            ["one", "two-words-code", "two-words-code-1"]
        );
    }

    #[test]
    fn code_holds_no_links() {
        assert_eq!(document().links(), [(5, "b.md#c".to_owned())]);
        assert_eq!(link_targets("[label]: there.md"), ["there.md"]);
    }

    #[test]
    fn fences_keep_their_line() {
        let fence = Fence {
            info: "console run".into(),
            line: 7,
            content: vec!["$ [y](neither.md)".into()],
        };
        assert_eq!(document().fences(), [fence]);
    }

    #[test]
    fn a_fence_may_hold_a_shorter_fence() {
        let document = Document::parse(
            "x.md".into(),
            "````md\n```\ninside\n```\n````\noutside `code`\n",
        );
        assert_eq!(document.fences()[0].content, ["```", "inside", "```"]);
        assert_eq!(document.code(), [(6, "code".to_owned())]);
    }

    #[test]
    fn inline_code_is_found() {
        let code: Vec<_> = document()
            .code()
            .into_iter()
            .map(|(_, code)| code)
            .collect();
        assert_eq!(code, ["code", "[x](no.md)", "make test", "code", "b"]);
    }

    #[test]
    fn a_table_is_rows_of_cells() {
        assert_eq!(
            document().table_rows(),
            [(15, vec!["a".to_owned(), "`b`".to_owned()])]
        );
    }

    #[test]
    fn a_section_ends_at_the_next_heading_of_its_rank() {
        let section = document().section("Two words, `code`").unwrap();
        assert_eq!(section.links().len(), 1);
        assert_eq!(section.table_rows(), []);
        assert!(document().section("Three").is_none());
    }
}
