//! Files and folders: what users name for input and output, temporary ones, and those of this user.

pub(crate) mod foreign_folder;
pub(crate) mod input_file;
pub(crate) mod output_file;
pub(crate) mod own_program;
pub(crate) mod temporary;
pub(crate) mod user_dirs;
