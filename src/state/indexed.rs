//! A list in order of arrival, whose entries are also found by their keys: a job has hundreds of processes
//! and devices, and every reading asks for one of each.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::ops::{Deref, DerefMut};

/// What an entry is found by. It never changes.
pub trait Keyed {
    type Key: Clone + Debug + Eq + Hash;

    fn key(&self) -> &Self::Key;
}

/// As a slice its entries can be read and changed, but for their keys and their order.
#[derive(Debug, Clone)]
pub struct Indexed<T: Keyed> {
    entries: Vec<T>,
    places: HashMap<T::Key, usize>,
}

impl<T: Keyed> Indexed<T> {
    pub fn place(&self, key: &T::Key) -> Option<usize> {
        self.places.get(key).copied()
    }

    pub fn with(&self, key: &T::Key) -> Option<&T> {
        self.entries.get(self.place(key)?)
    }

    pub(super) fn with_mut(&mut self, key: &T::Key) -> Option<&mut T> {
        let place = self.place(key)?;
        self.entries.get_mut(place)
    }

    /// Adds an entry whose key no other has.
    pub(crate) fn push(&mut self, entry: T) {
        self.places.insert(entry.key().clone(), self.entries.len());
        self.entries.push(entry);
    }

    pub(super) fn remove(&mut self, place: usize) {
        self.entries.remove(place);
        let keys = self.entries.iter().map(|entry| entry.key().clone());
        self.places = keys.zip(0..).collect();
    }
}

impl<T: Keyed> Default for Indexed<T> {
    fn default() -> Indexed<T> {
        Indexed {
            entries: Vec::new(),
            places: HashMap::new(),
        }
    }
}

impl<T: Keyed> FromIterator<T> for Indexed<T> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Indexed<T> {
        let mut list = Indexed::default();
        entries.into_iter().for_each(|entry| list.push(entry));
        list
    }
}

impl<T: Keyed> Deref for Indexed<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.entries
    }
}

impl<T: Keyed> DerefMut for Indexed<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.entries
    }
}

impl<'a, T: Keyed> IntoIterator for &'a Indexed<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.iter()
    }
}

impl<'a, T: Keyed> IntoIterator for &'a mut Indexed<T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.iter_mut()
    }
}

pub(super) fn push_bounded<T>(list: &mut Vec<T>, item: T, bound: usize) {
    if list.len() >= bound {
        list.remove(0);
    }
    list.push(item);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::DeviceState;
    use crate::units::Uuid;

    #[test]
    fn entries_are_found_by_their_keys_also_after_one_has_gone() {
        let uuid = |number: usize| Uuid::new(&format!("aaaa-{number}"));
        let mut list: Indexed<DeviceState> = (0..4)
            .map(|number| DeviceState::new(uuid(number), "card", number as u32))
            .collect();
        list.remove(1);
        let index = |number| list.with(&uuid(number)).map(|device| device.index);
        assert_eq!([0, 1, 2, 3].map(index), [Some(0), None, Some(2), Some(3)]);
        let order: Vec<u32> = list.iter().map(|device| device.index).collect();
        assert_eq!(order, [0, 2, 3]);
    }
}
