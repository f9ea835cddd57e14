//! The allocator's settings: which of its variables this torch reads, and what each setting means.

use super::{Check, Facts, PythonFacts};
use crate::recognize::alloc_conf::{
    self, AllocConf, CUDA, Conflict, GENERAL, HIP, Inherited, TorchVersion,
};

const SUBJECT: &str = "allocator";

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let torch = match &facts.command.python {
        PythonFacts::Found {
            asked: Ok(asked), ..
        } => {
            (asked.torch.as_ref()).and_then(|torch| TorchVersion::parse(torch.version.as_deref()?))
        }
        PythonFacts::Found { .. } | PythonFacts::NotFound(_) | PythonFacts::OutOfSight { .. } => {
            None
        }
    };
    let inherited = Inherited {
        cuda: facts.variable(CUDA),
        hip: facts.variable(HIP),
        general: facts.variable(GENERAL),
    };
    let set: Vec<&str> = [CUDA, HIP, GENERAL]
        .into_iter()
        .filter(|name| facts.variable(name).is_some())
        .collect();
    if set.is_empty() {
        return vec![Check::ok(SUBJECT, "PyTorch's defaults: no variable is set")];
    }
    let unreadable: Vec<Check> = set
        .iter()
        .filter_map(|name| {
            let error = AllocConf::parse(facts.variable(name)?).err()?;
            Some(Check::error(
                SUBJECT,
                format!("{name} cannot be read: {error}"),
                "mend it: the training ends at its first use of the GPU",
            ))
        })
        .collect();
    if !unreadable.is_empty() {
        return unreadable;
    }
    let (source, conf) = match alloc_conf::in_force(inherited, torch) {
        Ok(in_force) => in_force,
        // Which one counts depends on torch's version.
        Err(reason) => {
            let advice = "name the command, so that its torch is known: oomph doctor -- COMMAND";
            return vec![Check::warning(SUBJECT, reason, advice)];
        }
    };
    let mut checks = Vec::new();
    for name in set.iter().filter(|name| Some(**name) != source) {
        let read = match source {
            Some(read) => format!("this torch reads {read} instead"),
            None => "this torch does not read it".into(),
        };
        checks.push(Check::warning(
            SUBJECT,
            format!("{name} is set, and has no effect: {read}"),
            format!("set {CUDA}, which every version reads, and unset {name}"),
        ));
    }
    for (key, value) in conf.settings() {
        checks.push(match alloc_conf::meaning(key, value, torch) {
            Ok(meaning) if key == "backend" && value != "native" => Check::warning(
                SUBJECT,
                format!("{key}:{value}: {meaning}"),
                "it has no statistics that oomph could show: device memory only. Remove it to see the curve",
            ),
            Ok(meaning) => Check::ok(SUBJECT, format!("{key}:{value}: {meaning}")),
            Err(reason) => Check::error(
                SUBJECT,
                reason,
                "mend or remove it: the training ends at its first use of the GPU",
            ),
        });
    }
    checks.extend(
        alloc_conf::conflict(&conf, torch).map(|conflict| match conflict {
            Conflict::Fails(words) => Check::error(SUBJECT, words, "remove one of them"),
            Conflict::Hinders(words) => Check::warning(SUBJECT, words, "remove one of them"),
        }),
    );
    checks
}
