//! `palisade man`: one manual page for all verbs.
//!
//! `run` is described in full, for its grants and limits are what the page is opened for.

use crate::{args::Arguments, help, say};
use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};
use std::io;

/// Prints the page.
pub(crate) fn man() -> anyhow::Result<u8> {
    let page = write_page().context("wall: cannot make the manual page")?;
    say::print_own(&page, "the manual page")
}

fn write_page() -> io::Result<Vec<u8>> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let mut page = Vec::new();
    let whole = Man::new(command.clone()).manual("Palisade Manual");
    whole.render_title(&mut page)?;
    whole.render_name_section(&mut page)?;
    write_synopsis(&command).to_writer(&mut page)?;
    whole.render_description_section(&mut page)?;
    write_verbs(&command).to_writer(&mut page)?;
    if let Some(run) = command.find_subcommand("run") {
        Man::new(run.clone()).render_options_section(&mut page)?;
    }
    let mut end = Roff::new();
    write_details(&mut end);
    end.control("SH", ["SEE ALSO"]);
    end.text([roman("namespaces(7), landlock(7), seccomp(2), cgroups(7)")]);
    end.to_writer(&mut page)?;
    Ok(page)
}

fn write_synopsis(command: &Command) -> Roff {
    let mut page = Roff::new();
    page.control("SH", ["SYNOPSIS"]);
    for verb in command.get_subcommands() {
        let usage = verb.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ");
        let name = verb.get_bin_name().unwrap_or_else(|| verb.get_name());
        let rest = usage.strip_prefix(name).unwrap_or(usage);
        page.text([bold(name), roman(rest)]);
        page.control("br", []);
    }
    page
}

fn write_verbs(command: &Command) -> Roff {
    let mut page = Roff::new();
    page.control("SH", ["VERBS"]);
    for verb in command.get_subcommands() {
        page.control("TP", []);
        page.text([bold(verb.get_name())]);
        if let Some(about) = verb.get_long_about().or_else(|| verb.get_about()) {
            page.text([roman(about.to_string())]);
        }
    }
    page
}

/// Turns the text of `run --help` into sections: a line that ends in a colon begins one, and what
/// stands below it is a table, kept as it is.
fn write_details(page: &mut Roff) {
    page.control("SH", ["NOTES"]);
    let mut in_table = false;
    for line in help::RUN_DETAILS.lines().filter(|line| !line.is_empty()) {
        match line.strip_suffix(':').filter(|_| !line.starts_with(' ')) {
            Some(title) => {
                end_table(page, &mut in_table);
                page.control("SH", [title.to_uppercase().as_str()]);
                page.control("nf", []);
                in_table = true;
            }
            None => drop(page.text([roman(line)])),
        }
    }
    end_table(page, &mut in_table);
}

fn end_table(page: &mut Roff, in_table: &mut bool) {
    if std::mem::replace(in_table, false) {
        page.control("fi", []);
    }
}
