//! (under construction)
use super::{Census, Opened, SiteConfig, SiteError};
use model::{Caveat, Fact, NfsTarget, Pass, RunSpec};
use workload::Pattern;
pub(super) struct NfsSite;
impl NfsSite {
    pub(super) fn create(_: &NfsTarget, _: &RunSpec, _: &SiteConfig) -> Result<Self, SiteError> {
        Err(SiteError::Stopped)
    }
    pub(super) fn fill(&self, _: &RunSpec, _: &Pattern) -> Result<(), SiteError> {
        Ok(())
    }
    pub(super) fn open(
        &self,
        _: &RunSpec,
        _: Pass,
        _: u32,
        _: &SiteConfig,
    ) -> Result<Opened, SiteError> {
        Err(SiteError::Stopped)
    }
    pub(super) fn census(&self) -> Result<Census, SiteError> {
        Err(SiteError::Stopped)
    }
    pub(super) fn facts(&self) -> Vec<Fact> {
        vec![]
    }
    pub(super) fn caveats(&self, _: &RunSpec) -> Vec<Caveat> {
        vec![]
    }
    pub(super) fn remove(self: Box<Self>) -> Result<(), SiteError> {
        Ok(())
    }
}
