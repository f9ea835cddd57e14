//! Private pools of PyTorch's allocator (CUDA graphs', the program's own), which serve nothing else: their sum, and where there are
//! several each by its name, as far as the allocator's snapshot told them apart.

use super::oom_context::OomContext;
use crate::event::PrivatePool;
use crate::units::Bytes;

/// So many are named.
const NAMED: usize = 4;

/// What PyTorch's message says of all together, else the snapshot.
pub(super) fn sum(case: &OomContext) -> Option<Bytes> {
    let said = (case.oom.report.as_ref()).and_then(|report| report.private_pools);
    let seen: Bytes = each(case).iter().map(|pool| pool.reserved).sum();
    said.or((seen > Bytes::ZERO).then_some(seen))
}

fn each<'a>(case: &OomContext<'a>) -> &'a [PrivatePool] {
    case.record()
        .map_or(&[], |record| record.private_pools.as_slice())
}

/// `12.0 GiB is in private pools (CUDA graphs): 8.00 GiB of pool 1:0 (graphs.py:31), 4.00 GiB of pool 2:0`.
pub(super) fn sentence(case: &OomContext) -> Option<String> {
    let all = sum(case)?;
    let pools = each(case);
    let names: Vec<String> = pools.iter().take(NAMED).map(named).collect();
    let more = match pools.len() - names.len() {
        0 => String::new(),
        more => {
            let rest: Bytes = pools[NAMED..].iter().map(|pool| pool.reserved).sum();
            format!(", {rest} of {more} more")
        }
    };
    Some(match pools.len() {
        0 | 1 => format!("{all} is in private pools (CUDA graphs)"),
        _ => format!(
            "{all} is in private pools (CUDA graphs): {}{more}",
            names.join(", ")
        ),
    })
}

fn named(pool: &PrivatePool) -> String {
    let [first, second] = pool.pool;
    let line = pool
        .line
        .as_ref()
        .map(|line| format!(" ({})", line.place()));
    format!(
        "{} of pool {first}:{second}{}",
        pool.reserved,
        line.unwrap_or_default()
    )
}
