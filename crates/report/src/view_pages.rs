//! Pages of `dfsbench view`: the list of campaigns, one campaign, two compared, or an error.
//!
//! [`ViewPages`] creates them. Each is a normal report page with links to the others and a script
//! that keeps it up to date. Like the rest of this crate, it is pure: the caller provides the data.

use maud::{Markup, html};
use model::{Campaign, CampaignLine};

use crate::campaign;
use crate::comparison::CampaignComparison;
use crate::document::page_frame::Frame;
use crate::document::terminal::Screen;
use crate::document::{Form, html as body};
use crate::humanize;
use crate::table::Sheet;
use crate::table::title::CampaignProcess;

const SCRIPT: &str = include_str!("page/view.js");

/// Creates the pages for one state of a results file.
#[derive(Clone, Debug)]
pub struct ViewPages {
    /// Version of this state. Pages ask for changes since this version.
    pub version: u64,
    /// Ids of the campaigns that a process is running.
    pub running: Vec<i64>,
}

impl ViewPages {
    /// Lists all campaigns, with controls to open one or compare two.
    pub fn list(&self, file: &str, campaigns: &[CampaignLine]) -> String {
        let body = html! {
            header {
                p.overline { "dfsbench view" }
                h1 { (file) }
                p.meta { (humanize::counted(campaigns.len(), "campaign")) ", the latest first" }
            }
            section aria-labelledby="figures" {
                h2 #figures { "Campaigns" }
                @if campaigns.is_empty() {
                    p { "No campaigns yet; a new one appears here." }
                } @else {
                    form method="get" action="compare" { (self.render_list(campaigns)) }
                }
            }
        };
        self.page(file, "", &[], &body)
    }

    /// Report of a campaign.
    pub fn campaign(&self, campaign: &Campaign) -> String {
        let sheet = Sheet::from_campaign(campaign);
        let mut document = campaign::document(&sheet, Form::Html, Screen::default());
        let state = crate::table::title::describe_state(campaign.state, self.maker(campaign.id));
        document.about[0] = crate::table::title::describe_in_state(campaign, state);
        self.page(&document.title, "../", &[campaign.id], &body::body(&document))
    }

    /// Comparison of two campaigns.
    pub fn comparison(&self, ids: [i64; 2], compared: &CampaignComparison) -> String {
        let document = compared.document(Form::Html);
        self.page(&document.title, "", &ids, &body::body(&document))
    }

    fn maker(&self, campaign_id: i64) -> CampaignProcess {
        if self.running.contains(&campaign_id) {
            CampaignProcess::Running
        } else {
            CampaignProcess::Unknown
        }
    }

    fn page(&self, title: &str, base: &str, ids: &[i64], body: &Markup) -> String {
        let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
        let body = html! {
            a.skip href="#figures" { "To the table" }
            main data-base=(base) data-version=(self.version) data-campaign=[
                (!ids.is_empty()).then(|| ids.join(" "))
            ] {
                @if !ids.is_empty() {
                    nav aria-label="Results" { a href={ "./" (base) } { "All campaigns" } }
                }
                (body)
            }
            footer { "Served by dfsbench view to this host only; read-only." }
        };
        Frame { title, served: Some(SCRIPT) }.render_page(&body)
    }
}

/// Page with an error message.
pub fn error_page(status: &str, sentence: &str) -> String {
    let body = html! {
        main {
            header { p.overline { "dfsbench view" } h1 { (status) } p { (sentence) } }
        }
    };
    Frame { title: status, served: None }.render_page(&body)
}

/// Returns the `Content-Security-Policy` header for all pages.
pub fn policy() -> String {
    let policy = Frame { title: "", served: Some(SCRIPT) }.policy();
    format!("{policy}; frame-ancestors 'none'")
}

impl ViewPages {
    fn render_list(&self, campaigns: &[CampaignLine]) -> Markup {
        html! {
            div.scroll.sortable #campaigns role="region" aria-label="List of campaigns" tabindex="0" {
                table {
                    caption { "All campaigns in the file. Select two to compare them." }
                    thead {
                        tr {
                            th.number scope="col" { "number" }
                            th scope="col" data-factor { "name" }
                            th scope="col" { "started (UTC)" }
                            th scope="col" data-factor { "state" }
                            th.number scope="col" { "runs" }
                            th.number scope="col" { "trials" }
                            th scope="col" { "tags" }
                            th scope="col" { "before" }
                            th scope="col" { "after" }
                        }
                    }
                    tbody {
                        @for line in campaigns.iter().rev() { (self.render_campaign(line)) }
                    }
                }
            }
            p { button type="submit" { "Compare selected" } }
        }
    }

    fn render_campaign(&self, campaign: &CampaignLine) -> Markup {
        let CampaignLine { id, name, .. } = campaign;
        let state = crate::table::title::describe_state(campaign.state, self.maker(*id));
        html! {
            tr.first {
                th.number scope="row" { (id) }
                td { a href={ "campaign/" (id) } { (name) } }
                td { (humanize::utc(campaign.started_unix_ms).trim_end_matches(" UTC")) }
                td { (state) }
                td.number { (campaign.runs) }
                td.number { (campaign.trials) }
                td { (campaign.tags.join(", ")) }
                @for side in ["before", "after"] {
                    td {
                        input type="radio" name=(side) value=(id) required
                            aria-label={ "campaign " (id) " as " (side) };
                    }
                }
            }
        }
    }
}
