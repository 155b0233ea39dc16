//! Who asks the servers, how much, and a server that is kept busy.

use super::{
    load::{LOAD, Load, ask_by_wrk, requests, wrk},
    served::{Picture, Way},
    sites::Site,
    turns::{Body, Shared, Turns},
};
use crate::{
    Trial,
    pin::{Apart, Pin},
    rows::{Extent, Tools},
    sample::Reading,
    workloads::Workloads,
};
use anyhow::{Context, ensure};
use std::{path::PathBuf, rc::Rc, time::Duration};

impl Picture {
    fn body(&self, workloads: &Workloads) -> Body {
        let Self { width, height, .. } = self;
        let head = format!("P5\n{width} {height}\n255\n");
        Body {
            file: workloads.files_folder().join(self.name),
            answer_bytes: (head.len() + width * height) as u64,
        }
    }
}

/// Who asks, and how much.
pub(in crate::rows) struct Asking {
    pub(super) load: Load,
    wrk: Option<PathBuf>,
    pub(super) apart: Apart,
    extent: Extent,
}

impl Asking {
    pub(super) fn new(way: Way, tools: &Tools) -> anyhow::Result<Self> {
        let asking = Self::by_ours(tools)?;
        // A whole second is the least that wrk knows.
        let takes_wrk = way == Way::Busy && tools.extent != Extent::Tiny;
        Ok(Self {
            wrk: wrk().filter(|_| takes_wrk),
            ..asking
        })
    }

    /// With the lab's own clients alone.
    pub(in crate::rows) fn by_ours(tools: &Tools) -> anyhow::Result<Self> {
        let apart = Apart::find()?;
        Ok(Self {
            load: Load {
                program: tools.palisade.companion(LOAD)?,
                sleeps: !apart.is_apart(),
                yields: false,
            },
            wrk: None,
            apart,
            extent: tools.extent,
        })
    }

    /// Who are asked together, for what is there.
    pub(in crate::rows) fn turns(&self) -> Rc<Turns> {
        Turns::new(self.load.clone(), self.requests(), None, self.apart)
    }

    /// The same, and a picture may be posted.
    pub(super) fn turns_of(&self, posted: Option<Picture>, workloads: &Workloads) -> Rc<Turns> {
        let Some(picture) = posted else {
            return self.turns();
        };
        let requests = self.requests().div_ceil(picture.one_in);
        let body = picture.body(workloads);
        Turns::new(self.load.clone(), requests, Some(body), self.apart)
    }

    /// To each, in a round.
    fn requests(&self) -> usize {
        match self.extent {
            Extent::Full => 1000,
            Extent::Quick => 500,
            Extent::Tiny => 20,
        }
    }

    pub(super) fn busy(&self, site: Shared<Site>, url: String) -> BusyTrial {
        BusyTrial {
            site,
            url,
            load: self.load.clone(),
            wrk: self.wrk.clone(),
            apart: self.apart,
            extent: self.extent,
        }
    }
}

/// A server that is kept busy.
pub(super) struct BusyTrial {
    site: Shared<Site>,
    url: String,
    load: Load,
    wrk: Option<PathBuf>,
    apart: Apart,
    extent: Extent,
}

impl Trial for BusyTrial {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let pin = Pin::to(&self.apart.inside)?;
        let mut servers = self.site.borrow_mut().start()?;
        drop(pin);
        let _pin = Pin::to(&self.apart.outside)?;
        let asked = self.ask().with_context(|| {
            let said: Vec<_> = servers.iter_mut().map(|one| one.last_words()).collect();
            format!(
                "the clients of {} (the server: {})",
                self.url,
                said.join("; ")
            )
        });
        Ok(vec![requests(asked?)])
    }
}

impl BusyTrial {
    /// What wrk counts it does not look at: that answers are whole, and all of one length, is seen before.
    fn ask(&self) -> anyhow::Result<f64> {
        const LOOK: Duration = Duration::from_millis(50);
        let time = match self.extent {
            Extent::Full => Duration::from_secs(2),
            Extent::Quick => Duration::from_secs(1),
            Extent::Tiny => LOOK,
        };
        let by_ours = |time| {
            let busy = self.load.keep_busy(time, &self.url)?;
            busy.check()?;
            ensure!(busy.answers > 0, "nothing was answered");
            Ok(busy.replies_per_s)
        };
        match &self.wrk {
            None => by_ours(time),
            Some(wrk) => {
                by_ours(LOOK)?;
                ask_by_wrk(wrk, time.as_secs(), &self.url)
            }
        }
    }
}
