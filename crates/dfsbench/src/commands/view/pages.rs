//! Renders the pages to be served from a copy of the results file.
//!
//! [`Pages`] is the main type. Pages are rendered one at a time, so that memory use is bounded by
//! the largest campaign. The last page is cached: requesting it again costs nothing as long as the
//! file hasn't changed.

use std::sync::{Arc, Mutex};

use report::view_pages::ViewPages;
use report::{CampaignComparison, ComparisonRules, Format, Selection};
use results::{Store, StoreError};

use super::news::ChangeFeed;
use super::{error_answer, not_found};
use crate::exit::Failure;
use crate::files::temporary::Folder;
use crate::http::{self, Request, Response};
use crate::metrics;
use crate::stored::memory_guard;
use crate::terminal::output::lock_always;

/// The page for Prometheus: metrics of the latest campaign, or of `?campaign=N`.
const METRICS: &str = "metrics";

/// Renders the pages of a results file.
pub(super) struct Pages {
    news: Arc<ChangeFeed>,
    maker: Mutex<PageMaker>,
}

struct PageMaker {
    store: Store,
    /// Directory of the copy; `None` once no more pages are rendered.
    folder: Option<Folder>,
    /// The copy, and the version of the file that it was made from.
    copied: Option<(Store, i64)>,
    /// The last page: its request, the version of the file, and the response.
    last: Option<(String, i64, Response)>,
}

impl Pages {
    /// Creates a renderer for an open results file.
    pub(super) fn new(store: Store, news: Arc<ChangeFeed>) -> Result<Self, Failure> {
        let folder = Folder::for_copies().map_err(|error| Failure::Output {
            what: "a copy of the results file".to_owned(),
            reason: error.to_string(),
            hint: "set TMPDIR to a directory with free space",
        })?;
        Ok(Self {
            news,
            maker: Mutex::new(PageMaker { store, folder: Some(folder), copied: None, last: None }),
        })
    }

    /// Removes the copy even if there are still connections.
    pub(super) fn close(&self) {
        let mut maker = lock_always(&self.maker);
        maker.copied = None;
        maker.last = None;
        maker.folder = None;
    }

    pub(super) fn answer_metrics(&self) -> Response {
        self.answer(METRICS, &Request::default())
    }

    /// Answers a request below the token: `metrics`, ``, `campaign/7`, `compare?before=1&after=2`.
    pub(super) fn answer(&self, page: &str, request: &Request) -> Response {
        let mut maker = lock_always(&self.maker);
        // Get the version first, so that the page is notified of any change from now on.
        let served = ViewPages { version: self.news.version(), running: self.news.running() };
        let key = format!("{page}?{} {}", request.query, served.version);
        match maker.make_or_reuse(key, page, request, &served) {
            Ok(answer) => answer,
            Err(failure) => {
                let status = match failure {
                    StoreError::NoCampaign { .. } => "404 Not Found",
                    _ => "500 Internal Server Error",
                };
                error_answer(status, "", &maker.describe_failure(&failure))
            }
        }
    }
}

impl PageMaker {
    /// Returns the last page if the request and the file are the same, or renders a new one.
    fn make_or_reuse(
        &mut self,
        key: String,
        page: &str,
        request: &Request,
        served: &ViewPages,
    ) -> Result<Response, StoreError> {
        let state = self.update_copy()?;
        if let Some((known, of, answer)) = &self.last
            && *known == key
            && *of == state
        {
            return Ok(answer.clone());
        }
        let answer = self.make_page(page, request, served)?;
        self.last = Some((key, state, answer.clone()));
        Ok(answer)
    }

    /// Replaces the path of the copy in an error by that of the file, since users only know the
    /// latter.
    fn describe_failure(&self, failure: &StoreError) -> String {
        let message = failure.to_string();
        match &self.copied {
            Some((copy, _)) => {
                let [copy, file] = [copy.path(), self.store.path()];
                message.replace(&copy.display().to_string(), &file.display().to_string())
            }
            None => message,
        }
    }

    /// Updates the copy if necessary, and returns its version.
    fn update_copy(&mut self) -> Result<i64, StoreError> {
        let state = self.store.data_version()?;
        let is_current = matches!(&self.copied, Some((_, known)) if *known == state);
        if !is_current {
            // Close the old copy before overwriting it.
            self.copied = None;
            if let Some(folder) = &self.folder {
                let path = folder.path().join("copy.db");
                self.store.copy_to(&path)?;
                self.copied = Some((Store::open_existing(&path)?, state));
            }
        }
        Ok(state)
    }

    fn file_name(&self) -> String {
        self.store.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn make_page(
        &self,
        page: &str,
        request: &Request,
        served: &ViewPages,
    ) -> Result<Response, StoreError> {
        let Some((copy, _)) = &self.copied else { return Ok(not_found()) };
        copy.renew_budget();
        if page.is_empty() {
            return Ok(ok_answer(served.list(&self.file_name(), &copy.list()?)));
        }
        if let Some(id) = page.strip_prefix("campaign/").and_then(|id| id.parse().ok()) {
            return within_memory(copy, &[id], || Ok(ok_answer(served.campaign(&copy.load(id)?))));
        }
        if page == METRICS {
            let last = copy.list()?.last().map(|line| line.id);
            let Some(id) = request.campaign("campaign").or(last) else { return Ok(not_found()) };
            return within_memory(copy, &[id], || {
                Ok(metrics::answer(report::render(&copy.load(id)?, Format::OpenMetrics)))
            });
        }
        if page == "compare" {
            let ids = (request.campaign("before"), request.campaign("after"));
            let (Some(before), Some(after)) = ids else {
                let sentence = "Which campaigns? Choose one as before and one as after.";
                return Ok(error_answer("400 Bad Request", "", sentence));
            };
            let ids = [before, after];
            return within_memory(copy, &ids, || {
                Ok(ok_answer(compare_page(copy, ids, &self.file_name(), served)?))
            });
        }
        Ok(not_found())
    }
}

fn ok_answer(body: String) -> Response {
    Response { status: "200 OK", content_type: http::HTML, fields: "", body }
}

/// Renders a page of campaigns if they fit into memory, or else one that explains why not.
fn within_memory(
    copy: &Store,
    ids: &[i64],
    made: impl FnOnce() -> Result<Response, StoreError>,
) -> Result<Response, StoreError> {
    match memory_guard::check_fits(copy, ids) {
        Ok(()) => made(),
        Err(Failure::Store(failure)) => Err(failure),
        Err(why) => Ok(error_answer("507 Insufficient Storage", "", &why.to_string())),
    }
}

fn compare_page(
    copy: &Store,
    ids: [i64; 2],
    file: &str,
    served: &ViewPages,
) -> Result<String, StoreError> {
    let [before, after] = [copy.load(ids[0])?, copy.load(ids[1])?];
    let [one, other] = [&before, &after].map(|campaign| Selection { campaign, only: &[] });
    let mut compared = CampaignComparison::new(one, other, ComparisonRules::default());
    compared.name_files([file, file].map(str::to_owned));
    Ok(served.comparison(ids, &compared))
}
