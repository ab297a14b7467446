//! Every caveat that an agent raises: its cause is planted, and a clean run is silent about it.

mod outside;
mod recovery;
mod rig;

mod causes;
mod figures;
