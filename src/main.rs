//! Parse, call, turn the outcome into an exit status; nothing else.

fn main() {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == oomph::supervise::KEEPER_WORD)
    {
        oomph::supervise::keeper::main();
    }
}
