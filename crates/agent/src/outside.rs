//! Passes that another program makes: through the same site, facts, truths and doubts as ours.
//!
//! Nothing is prepared for a program but an empty directory, and the recorder has no part in it, so
//! what can be compared is what it says with what it left behind.

use engine::external::Outside;
use engine::worker::Ending;
use engine::{External, Measured, SiteError};
use fleet::PassEnd;
use model::{Fact, Pass, PassResult, Truth, Workload};

use crate::accounting::{self, Witnesses};
use crate::trial::{Trial, broken};

impl Trial<'_> {
    /// Has the program make one pass, accounts for it, and raises its caveats.
    pub(crate) fn run_outside(
        &mut self,
        external: &mut External,
        pass: Pass,
    ) -> Result<PassEnd, SiteError> {
        self.invalidate(pass)?;
        let Outside { measured, mut facts } = external.run(pass)?;
        let Measured { mut result, ending, tally } = measured;
        if !self.counts_storage_reads() {
            result.storage_read_bytes = None;
        }
        result.truths = accounting::truths(self.spec(), &result, &Witnesses::default());
        result.truths.extend(self.left_behind(&result, &ending)?);
        self.doubt(&mut result, &ending, &tally);
        for fact in &mut facts {
            name_after(fact, pass);
        }
        Ok(PassEnd { broken: broken(&result, &ending), result, facts })
    }

    /// Of a program that leaves its files: their sizes, against the bytes that it says it wrote.
    fn left_behind(
        &self,
        result: &PassResult,
        ending: &Ending,
    ) -> Result<Option<Truth>, SiteError> {
        let leaves = matches!(self.spec().workload, Workload::Fio | Workload::Dd);
        if !leaves || result.pass != Pass::Write || *ending != Ending::Complete {
            return Ok(None);
        }
        let census = self.site().census()?;
        Ok(census.map(|census| Truth {
            expected: result.bytes(),
            found: census.bytes,
            source: "sizes of the files, added up".to_owned(),
        }))
    }
}

/// A trial has several passes, and each may say the same of itself.
fn name_after(fact: &mut Fact, pass: Pass) {
    fact.name = format!("{pass}: {}", fact.name);
}
