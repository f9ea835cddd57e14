//! Whole numbers as they are written in Python: `5 * 8`, `2 ** 7`, `4 << 10`. Anything else is no number.

/// The value of integer arithmetic (`5 * 8`); `None` for anything else.
pub(super) fn python_number(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    // No constant is longer, and endless brackets would overflow the stack.
    if rest.len() > 100 {
        return None;
    }
    let number = shifted(&mut rest)?;
    rest.is_empty().then_some(number)
}

/// What stands at a byte of a line as a number, or is computed of written ones alone (`2 ** 7`, `4 * 32`), with its length.
pub(crate) fn written_numbers(line: &str, at: usize) -> Vec<(u64, usize)> {
    let rest = line.get(at..).unwrap_or_default();
    let is_part =
        |c: char| c.is_ascii_digit() || matches!(c, '_' | ' ' | '*' | '/' | '+' | '-' | '<');
    let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    let starts = rest.starts_with(|c: char| c.is_ascii_digit());
    let digits = rest
        .char_indices()
        .filter(|(at, c)| *at < length && c.is_ascii_digit());
    let ends = digits.map(|(at, _)| at + 1).filter(|end| {
        let next = rest[*end..].chars().next();
        !next.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '.'))
    });
    let ends: Vec<usize> = ends.filter(|_| starts).take(9).collect();
    let numbers = ends
        .into_iter()
        .filter_map(|end| Some((python_number(&rest[..end])?, end)));
    numbers.collect()
}

fn take(rest: &mut &str, operator: &str) -> bool {
    let found = rest.strip_prefix(operator);
    *rest = found.unwrap_or(rest).trim_start();
    found.is_some()
}

/// `4 << 10`
fn shifted(rest: &mut &str) -> Option<u64> {
    let mut number = sum(rest)?;
    while take(rest, "<<") {
        let by = u32::try_from(sum(rest)?).ok()?;
        number = number.checked_mul(2u64.checked_pow(by)?)?;
    }
    Some(number)
}

fn sum(rest: &mut &str) -> Option<u64> {
    let mut sum = product(rest)?;
    loop {
        sum = if take(rest, "+") {
            sum.checked_add(product(rest)?)?
        } else if take(rest, "-") {
            sum.checked_sub(product(rest)?)?
        } else {
            return Some(sum);
        };
    }
}

fn product(rest: &mut &str) -> Option<u64> {
    let mut product = power(rest)?;
    loop {
        product = if take(rest, "*") {
            product.checked_mul(power(rest)?)?
        } else if take(rest, "//") {
            product.checked_div(power(rest)?)?
        } else {
            return Some(product);
        };
    }
}

fn power(rest: &mut &str) -> Option<u64> {
    let base = operand(rest)?;
    match take(rest, "**") {
        true => base.checked_pow(power(rest)?.try_into().ok()?),
        false => Some(base),
    }
}

fn operand(rest: &mut &str) -> Option<u64> {
    if take(rest, "(") {
        let inner = shifted(rest)?;
        return take(rest, ")").then_some(inner);
    }
    let is_digit = |c: char| c.is_ascii_digit() || c == '_';
    let end = rest.find(|c| !is_digit(c)).unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    *rest = after.trim_start();
    digits.replace('_', "").parse().ok()
}
