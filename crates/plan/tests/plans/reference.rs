//! The reference page is up to date with the parser.

#[test]
fn keeps_reference_page_current() {
    let page = include_str!("../../../../docs/plan.md");
    let how = "cargo run -p dfsbench-plan --example reference > docs/plan.md";
    assert!(page == plan::reference_page(), "docs/plan.md is out of date: run `{how}`");
}
