//! The Python files, as the binary carries them.

use std::collections::BTreeSet;
use std::path::Path;

/// Each file's path below the installed package, and its text.
macro_rules! embedded {
    ($($path:literal,)*) => {
        &[$((
            concat!("oomph-probe/", $path),
            include_str!(concat!("python/oomph_probe/", $path)),
        )),*]
    };
}

/// What every interpreter of the program runs.
const LOADER: (&str, &str) = ("sitecustomize.py", include_str!("python/sitecustomize.py"));

/// The package `oomph_probe`. On disk it is `oomph-probe`, which is not a valid module name: no
/// `import` of the program can find it while the loader's directory is on sys.path.
const PACKAGE: &[(&str, &str)] = embedded![
    "__init__.py",
    "attached.py",
    "behind.py",
    "beside.py",
    "compiled.py",
    "ending.py",
    "hook.py",
    "process.py",
    "common/__init__.py",
    "common/blocks.py",
    "common/calls.py",
    "common/clock.py",
    "common/errors.py",
    "common/frames.py",
    "common/instead.py",
    "common/members.py",
    "common/objects.py",
    "common/pace.py",
    "common/phases.py",
    "common/rotation.py",
    "common/signals.py",
    "common/spool.py",
    "common/tracebacks.py",
    "common/wire.py",
    "knobs/__init__.py",
    "knobs/batch.py",
    "knobs/given.py",
    "knobs/knobs.py",
    "knobs/names.py",
    "knobs/parsers.py",
    "knobs/search.py",
    "knobs/settings.py",
    "knobs/watch.py",
    "live/__init__.py",
    "live/allocator.py",
    "live/backwards.py",
    "live/doing.py",
    "live/gathered.py",
    "live/graphs.py",
    "live/growth.py",
    "live/hello.py",
    "live/host_memory.py",
    "live/loaders.py",
    "live/losses.py",
    "live/modules.py",
    "live/readings.py",
    "live/recording.py",
    "live/regions.py",
    "live/requests.py",
    "live/sampler.py",
    "live/snapshot.py",
    "live/stack_policy.py",
    "live/step_hooks.py",
    "live/step_trace.py",
    "live/steps.py",
    "live/structure.py",
    "live/tracing.py",
    "oom/__init__.py",
    "oom/census.py",
    "oom/checkpoint.py",
    "oom/compiled.py",
    "oom/dump.py",
    "oom/gathering.py",
    "oom/limit.py",
    "oom/observer.py",
    "oom/operands.py",
    "oom/optimizer.py",
    "oom/outputs.py",
    "oom/progress.py",
    "oom/retainers.py",
    "oom/tree.py",
    "oom/uncaught.py",
    "oom/usage.py",
    "oom/variables.py",
    "oom/zero.py",
    "patch/__init__.py",
    "patch/amp.py",
    "patch/arguments.py",
    "patch/chunked.py",
    "patch/compilation.py",
    "patch/copying.py",
    "patch/derived.py",
    "patch/emptying.py",
    "patch/foreach.py",
    "patch/fused.py",
    "patch/head_loss.py",
    "patch/heads.py",
    "patch/loader.py",
    "patch/loading.py",
    "patch/moving.py",
    "patch/offload.py",
    "patch/outcomes.py",
    "patch/outputs.py",
    "patch/patches.py",
    "patch/precision.py",
    "patch/purity.py",
    "patch/ranks.py",
    "patch/recompute.py",
    "patch/source.py",
    "patch/unmade.py",
    "rehearse/__init__.py",
    "rehearse/accumulation.py",
    "rehearse/apart.py",
    "rehearse/before.py",
    "rehearse/beforehand.py",
    "rehearse/callers.py",
    "rehearse/catches.py",
    "rehearse/changes.py",
    "rehearse/chunking.py",
    "rehearse/compilations.py",
    "rehearse/compiling.py",
    "rehearse/composed.py",
    "rehearse/convolving.py",
    "rehearse/effects.py",
    "rehearse/evaluations.py",
    "rehearse/fakes.py",
    "rehearse/flat_shards.py",
    "rehearse/flops.py",
    "rehearse/functions.py",
    "rehearse/further.py",
    "rehearse/inputs.py",
    "rehearse/losses.py",
    "rehearse/noting.py",
    "rehearse/offloading.py",
    "rehearse/operators.py",
    "rehearse/optimizers.py",
    "rehearse/outliving.py",
    "rehearse/outside.py",
    "rehearse/parts.py",
    "rehearse/randoms.py",
    "rehearse/reading.py",
    "rehearse/own_kernels.py",
    "rehearse/packing.py",
    "rehearse/partitioned.py",
    "rehearse/recomputing.py",
    "rehearse/reduced.py",
    "rehearse/regions.py",
    "rehearse/scaling.py",
    "rehearse/wrappers.py",
    "rehearse/recurrent.py",
    "rehearse/rehearsal.py",
    "rehearse/rehearsals.py",
    "rehearse/roots.py",
    "rehearse/rounds.py",
    "rehearse/rules.py",
    "rehearse/scripted.py",
    "rehearse/shadows.py",
    "rehearse/shards.py",
    "rehearse/shares.py",
    "rehearse/singly.py",
    "rehearse/sizes.py",
    "rehearse/sources.py",
    "rehearse/sparse.py",
    "rehearse/statements.py",
    "rehearse/trace.py",
    "rehearse/unseen.py",
    "rehearse/upcoming.py",
    "rehearse/values.py",
    "rehearse/warned.py",
    "rehearse/work.py",
];

/// The package's own folder before those in it.
pub(super) fn folders() -> BTreeSet<&'static Path> {
    PACKAGE
        .iter()
        .filter_map(|(name, _)| Path::new(name).parent())
        .collect()
}

pub(super) fn files() -> impl Iterator<Item = (&'static str, &'static str)> {
    std::iter::once(LOADER).chain(PACKAGE.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn every_python_file_is_embedded() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/probe/python/oomph_probe");
        let mut folders = vec![source.clone()];
        let mut count = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "py") {
                    let below = path.strip_prefix(&source).unwrap();
                    let name = Path::new("oomph-probe").join(below);
                    assert!(
                        PACKAGE.iter().any(|(file, _)| Path::new(file) == name),
                        "{below:?}"
                    );
                    count += 1;
                }
            }
        }
        assert_eq!(count, PACKAGE.len());
    }
}
