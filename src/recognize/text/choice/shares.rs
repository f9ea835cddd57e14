//! The numbers that the program takes from each batch, to go on with the rest: they are made as much smaller as the batch,
//! wherever that is set.

use super::{TextReading, leaf};
use crate::recognize::argument::Name;
use crate::recognize::batch::{BatchSource, Knob};
use crate::recognize::family;
use crate::recognize::recognized::Recognized;
use crate::recognize::text::{ProgramText, TextNumber};

impl<'c> Recognized<'c> {
    /// Adds them to the one number that sets the batch.
    pub(crate) fn follow_shares(&self, source: &mut BatchSource<'c>, text: &'c ProgramText) {
        let ([knob], Ok(arguments)) = (source.sizes.as_slice(), self.opened()) else {
            return;
        };
        let reading = TextReading::new(self, text, &arguments);
        let batch = knob.variable();
        let mut found: Vec<Knob<'c>> = Vec::new();
        for share in text.shares.of(&batch) {
            let known = found.iter().any(|one| one.variable() == share);
            let one = reading
                .share(share)
                .filter(|one| !known && (1..knob.value).contains(&one.value));
            found.extend(one);
        }
        if let Some(first) = found.first() {
            let remark = format!(
                "{} is a share of each batch, and is made smaller with it",
                first.variable()
            );
            source.remarks.push(remark);
        }
        source.sizes.extend(found);
    }
}

impl<'a> TextReading<'_, 'a> {
    /// The number of this name: as it is typed, whether it has a default or not, or as the text has it.
    fn share(&self, name: &str) -> Option<Knob<'a>> {
        let is_it = |option: &&String| family::plain(option) == family::plain(name);
        if let Some(option) = self.text.abbreviated.iter().find(is_it) {
            let typed = self.arguments.find(Name::new(option)).pop();
            let cut = || self.cut_short(std::slice::from_ref(option)).pop();
            if let Some(hit) = typed.or_else(cut) {
                return Knob::of(&hit).ok();
            }
        }
        // Another file may declare it too, for another program.
        let named = |number: &&TextNumber| leaf(number) == name && !number.is_overwritten;
        let mut all: Vec<&TextNumber> = self.text.numbers.iter().filter(named).collect();
        all.sort_by_key(|number| number.role);
        self.knob(all.first()?).ok()
    }
}
