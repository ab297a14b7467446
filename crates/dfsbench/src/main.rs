//! (under construction)
fn main(){}
