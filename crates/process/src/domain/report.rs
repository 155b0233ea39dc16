//! What a domain's end comes to.

use super::Domain;
use crate::{
    denials,
    plan::NAME,
    wire::{self, ended},
};
use palisade_wall::{Ending, Exit, Phase, REPORT_VERSION, Report, Usage};

impl Domain {
    pub(super) fn report(&self, words: &[u64; wire::RECORD_WORDS]) -> Report {
        let exit = Exit::from_wait_status(words[ended::STATUS] as u32);
        let ending = self.ending(words);
        let mut denials = denials::of_domain(
            (exit, ending),
            (&self.counted, words[ended::FULL]),
            &self.observed,
            (&self.seen, self.layout.as_deref()),
        );
        denials.extend_from_slice(&self.lost_files);
        self.observed.ends.tell(&mut denials);
        Report {
            version: REPORT_VERSION,
            wall: NAME.into(),
            trap: None,
            lost: self.lost(words),
            command: self.command.clone(),
            called: None,
            exit,
            ending,
            exit_code: ending.shell_code(exit),
            enforcement: self.enforcement.to_vec(),
            denials,
            phases: self.phases(words),
            usage: self.usage(words),
            had: self.had.clone(),
            granted: self.observed.granted.clone(),
        }
    }

    fn ending(&self, words: &[u64; wire::RECORD_WORDS]) -> Ending {
        match words[ended::REASON] {
            _ if self.output_limit_reached => Ending::OutputLimit,
            wire::REASON_TIME => Ending::TimeLimit,
            wire::REASON_CPU_TIME => Ending::CpuTimeLimit,
            wire::REASON_KILLED => Ending::Supervisor,
            wire::REASON_OPERATOR => Ending::Operator,
            wire::REASON_UNPROTECTED => Ending::Unprotected,
            _ if self.ran_out_of_memory() && is_killed(words) => Ending::MemoryLimit,
            _ => Ending::Guest,
        }
    }

    /// The path whose protection was taken away.
    fn lost(&self, words: &[u64; wire::RECORD_WORDS]) -> Option<String> {
        let path = self.guarded.get(words[ended::LOST] as usize)?;
        (words[ended::REASON] == wire::REASON_UNPROTECTED).then(|| path.to_string_lossy().into())
    }

    pub(super) fn ran_out_of_memory(&self) -> bool {
        self.counted.oom_kills.is_some_and(|kills| kills > 0)
    }

    fn phases(&self, words: &[u64; wire::RECORD_WORDS]) -> Vec<Phase> {
        let start = &self.start;
        [
            ("order-received", start.park_began_ns),
            ("namespaces", start.park_done_ns),
            ("plan-sent", start.sent_ns),
            ("plan-received", start.received_ns),
            ("root-built", start.root_ns),
            ("host-left", start.pivot_ns),
            ("program-running", start.exec_ns),
            ("guest-ended", words[ended::GUEST_END_NS]),
            ("all-reaped", words[ended::REAPED_NS]),
            ("domain-gone", self.gone_ns),
        ]
        .into_iter()
        // A domain without namespaces has no root of its own to build, and not every end is waited for.
        .filter(|(_, at_ns)| *at_ns != 0)
        .map(|(name, at_ns)| Phase {
            name: name.into(),
            done_us: at_ns.saturating_sub(start.ordered_ns) as f64 / 1000.0,
        })
        .collect()
    }

    fn usage(&self, words: &[u64; wire::RECORD_WORDS]) -> Usage {
        const BLOCK_BYTES: u64 = 512;
        let waited_for_us = (words[ended::USER_US], words[ended::SYSTEM_US]);
        let (user_us, system_us) = self.counted.processor_us().unwrap_or(waited_for_us);
        let answering_us = self.observed.answering.as_micros() as u64;
        Usage {
            wall_us: words[ended::GUEST_END_NS].saturating_sub(self.start.exec_ns) / 1000,
            user_us,
            system_us: system_us + answering_us,
            peak_process_bytes: words[ended::MAX_RSS_KIB] * 1024,
            peak_domain_bytes: self.counted.memory_peak_bytes,
            peak_processes: self.counted.pids_peak,
            minor_faults: words[ended::MINOR_FAULTS],
            major_faults: words[ended::MAJOR_FAULTS],
            read_bytes: words[ended::BLOCKS_IN] * BLOCK_BYTES,
            written_bytes: words[ended::BLOCKS_OUT] * BLOCK_BYTES,
            voluntary_switches: words[ended::VOLUNTARY_SWITCHES],
            involuntary_switches: words[ended::INVOLUNTARY_SWITCHES],
            output_bytes: None,
            left_behind: words[ended::KILLED],
        }
    }
}

/// By SIGKILL itself, or as a shell that tells of it.
fn is_killed(words: &[u64; wire::RECORD_WORDS]) -> bool {
    matches!(
        Exit::from_wait_status(words[ended::STATUS] as u32),
        Exit::Signal(9) | Exit::Code(137)
    )
}
