//! Lists that forget their oldest item when they are full.

pub(super) fn push_bounded<T>(list: &mut Vec<T>, item: T, bound: usize) {
    if list.len() >= bound {
        list.remove(0);
    }
    list.push(item);
}
