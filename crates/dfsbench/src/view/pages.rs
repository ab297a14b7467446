//! The pages that are served, made from a copy of the results file.
//!
//! [`Pages`] is the principal type. One page is made at a time, so that memory is bounded by the
//! largest campaign, and the last one is kept: a page that is asked for again costs nothing as
//! long as the file has not changed.

use std::sync::{Arc, Mutex, PoisonError};

use report::served::Served;
use report::{Compared, Rules, Selection};
use results::{Store, StoreError};
use tempfile::TempDir;

use super::http::{Answer, Request};
use super::news::News;
use super::{error_answer, not_found};
use crate::exit::Failure;
use crate::memory_guard;

/// Renders the pages of a results file.
pub struct Pages {
    news: Arc<News>,
    maker: Mutex<Maker>,
}

struct Maker {
    store: Store,
    /// The directory of the copy; `None` once there is no more to come.
    folder: Option<TempDir>,
    /// The copy, and which state of the file it is.
    copied: Option<(Store, i64)>,
    /// The last page: what was asked for, of which state, and the answer.
    last: Option<(String, i64, Answer)>,
}

impl Pages {
    /// Makes pages of an open results file.
    ///
    /// # Errors
    /// When there is no room for a copy of the file.
    pub fn new(store: Store, news: Arc<News>) -> Result<Self, Failure> {
        let folder = TempDir::with_prefix("dfsbench-view-").map_err(|error| Failure::Output {
            what: "a copy of the results file".to_owned(),
            reason: error.to_string(),
            hint: "set TMPDIR to a directory that has room",
        })?;
        Ok(Self {
            news,
            maker: Mutex::new(Maker { store, folder: Some(folder), copied: None, last: None }),
        })
    }

    /// Removes the copy, whatever connections are still there.
    pub fn close(&self) {
        let mut maker = self.maker.lock().unwrap_or_else(PoisonError::into_inner);
        (maker.copied, maker.last, maker.folder) = (None, None, None);
    }

    /// Answers what is asked for below the token: ``, `campaign/7`, `compare?before=1&after=2`.
    pub fn answer(&self, page: &str, request: &Request) -> Answer {
        let mut maker = self.maker.lock().unwrap_or_else(PoisonError::into_inner);
        // First, so that what changes from now on is news to the page.
        let served = Served { version: self.news.version() };
        let asked = format!("{page}?{} {}", request.query, served.version);
        let made = maker.state().and_then(|state| match &maker.last {
            Some((known, of, answer)) if *known == asked && *of == state => Ok(answer.clone()),
            _ => {
                let answer = maker.made(page, request, served)?;
                maker.last = Some((asked, state, answer.clone()));
                Ok(answer)
            }
        });
        made.unwrap_or_else(|failure| {
            let status = match failure {
                StoreError::NoCampaign { .. } => "404 Not Found",
                _ => "500 Internal Server Error",
            };
            error_answer(status, "", &maker.told(&failure))
        })
    }
}

impl Maker {
    /// Describes a failure by the file itself: users don't know of its copy.
    fn told(&self, failure: &StoreError) -> String {
        let told = failure.to_string();
        match &self.copied {
            Some((copy, _)) => {
                let [copy, file] = [copy, &self.store].map(|s| s.path().display().to_string());
                told.replace(&copy, &file)
            }
            None => told,
        }
    }

    /// Brings the copy up to date; the number of its state.
    fn state(&mut self) -> Result<i64, StoreError> {
        let state = self.store.data_version()?;
        if self.copied.as_ref().is_none_or(|(_, known)| *known != state) {
            // The old copy is closed before it is written over.
            self.copied = None;
            if let Some(folder) = &self.folder {
                let path = folder.path().join("copy.db");
                self.store.copy_to(&path)?;
                self.copied = Some((Store::open_existing(&path)?, state));
            }
        }
        Ok(state)
    }

    fn made(&self, page: &str, request: &Request, served: Served) -> Result<Answer, StoreError> {
        let Some((copy, _)) = &self.copied else { return Ok(not_found()) };
        let ok = |body| Answer { status: "200 OK", fields: "", body };
        if page.is_empty() {
            let file = self.store.path().file_name().unwrap_or_default().to_string_lossy();
            return Ok(ok(served.list(&file, &copy.list()?)));
        }
        if let Some(id) = page.strip_prefix("campaign/").and_then(|id| id.parse().ok()) {
            return within_memory(copy, &[id], || Ok(ok(served.campaign(&copy.load(id)?))));
        }
        if page == "compare" {
            let id = |name| request.asked(name).and_then(|id| id.parse::<i64>().ok());
            let (Some(before), Some(after)) = (id("before"), id("after")) else {
                let sentence = "Which campaigns? Choose one as before and one as after.";
                return Ok(error_answer("400 Bad Request", "", sentence));
            };
            let ids = [before, after];
            return within_memory(copy, &ids, || Ok(ok(compare_page(copy, ids, served)?)));
        }
        Ok(not_found())
    }
}

/// Makes a page of campaigns where memory does for them, else one that says so.
fn within_memory(
    copy: &Store,
    ids: &[i64],
    made: impl FnOnce() -> Result<Answer, StoreError>,
) -> Result<Answer, StoreError> {
    match memory_guard::check_room(copy, ids) {
        Ok(()) => made(),
        Err(Failure::Store(failure)) => Err(failure),
        Err(why) => Ok(error_answer("507 Insufficient Storage", "", &why.to_string())),
    }
}

fn compare_page(copy: &Store, ids: [i64; 2], served: Served) -> Result<String, StoreError> {
    let [before, after] = [copy.load(ids[0])?, copy.load(ids[1])?];
    let [one, other] = [&before, &after].map(|campaign| Selection { campaign, only: &[] });
    Ok(served.comparison(ids, &Compared::of(one, other, Rules::default())))
}
