//! Questions about a guest, to a function of the host's.

use crate::Error;
use palisade_wall::ask::{Answer, Question, Told, Verdict};
use std::{
    fmt,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    sync::Arc,
    thread,
    time::Duration,
};

/// Who answers, and within which time.
#[derive(Clone)]
pub(super) struct Asks {
    patience: Duration,
    answer: Arc<dyn Fn(&Question) -> Verdict + Send + Sync>,
}

impl fmt::Debug for Asks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Asks")
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

impl Asks {
    pub(super) fn new(
        patience: Duration,
        answer: impl Fn(&Question) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        Self {
            patience,
            answer: Arc::new(answer),
        }
    }

    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// Begins the thread, which ends with the domain. Gives the wall's end.
    pub(super) fn begin(&self) -> Result<UnixStream, Error> {
        let (ours, theirs) = UnixStream::pair().map_err(Error::Asks)?;
        let answer = Arc::clone(&self.answer);
        let builder = thread::Builder::new().name("palisade-asks".into());
        // Whoever asks is gone when nothing can be read or written any more.
        let run = move || drop(answer_all(ours, &*answer));
        builder.spawn(run).map_err(Error::Asks)?;
        Ok(theirs)
    }
}

fn answer_all(
    mut channel: UnixStream,
    answer: &dyn Fn(&Question) -> Verdict,
) -> std::io::Result<()> {
    for line in BufReader::new(channel.try_clone()?).lines() {
        let Some(Told::Question(question)) = Told::read(line?.as_bytes()) else {
            continue;
        };
        let said = Answer {
            question: question.question,
            verdict: answer(&question),
        };
        channel.write_all(&said.line())?;
    }
    Ok(())
}
