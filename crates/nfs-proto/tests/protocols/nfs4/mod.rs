//! NFS v4 against bytes written by hand, and against arbitrary bytes.

mod compound;
mod golden;
mod layout_bodies;
mod layouts;
mod ops;
mod properties;
mod results;
