//! The settings of a Python file of plain assignments (nanoGPT's config files). A value that is
//! computed from other names, assigned twice or set in a block is unclear.

use super::{FileSetting, FileSettings};

/// The assignments at the left margin.
pub(super) fn settings(text: &str) -> Result<FileSettings, String> {
    let mut settings = FileSettings::default();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let from = offset;
        offset += line.len();
        if line.contains("\"\"\"") || line.contains("'''") {
            return Err("it has text over several lines".into());
        }
        let content = line.trim_end();
        if content.starts_with("import ") || content.starts_with("from ") {
            settings.may_hide = true;
        }
        let Some((name, rest)) = content.split_once('=') else {
            continue;
        };
        let name = name.trim_end();
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        // In a block, or `+=`: assigned conditionally.
        let bare = name
            .trim_start()
            .trim_end_matches(['+', '-', '*', '/'])
            .trim_end();
        if !is_name(bare) || rest.starts_with('=') {
            continue;
        }
        let value = rest.split('#').next().unwrap_or(rest);
        let trimmed = value.trim();
        let at = from + content.len() - rest.len() + (value.len() - value.trim_start().len());
        let is_literal = matches!(trimmed, "True" | "False") || number(trimmed).is_some();
        let quoted = ['\'', '"'].iter().find_map(|quote| {
            let inner = trimmed.strip_prefix(*quote)?.strip_suffix(*quote)?;
            (!inner.contains(['\'', '"', '\\'])).then_some(inner)
        });
        let (from, to) = match quoted {
            Some(inner) => (at + 1, at + 1 + inner.len()),
            None => (at, at + trimmed.len()),
        };
        settings.all.push(FileSetting {
            name: bare.to_string(),
            from,
            to,
            is_plain: name == bare && (is_literal || quoted.is_some()),
        });
    }
    Ok(settings)
}

/// The value of integer arithmetic (`5 * 8`); `None` for anything else.
pub(super) fn number(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    // No constant is longer, and endless brackets would overflow the stack.
    if rest.len() > 100 {
        return None;
    }
    let sum = sum(&mut rest)?;
    rest.is_empty().then_some(sum)
}

fn take(rest: &mut &str, operator: &str) -> bool {
    let found = rest.strip_prefix(operator);
    *rest = found.unwrap_or(rest).trim_start();
    found.is_some()
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
        let inner = sum(rest)?;
        return take(rest, ")").then_some(inner);
    }
    let is_digit = |c: char| c.is_ascii_digit() || c == '_';
    let end = rest.find(|c| !is_digit(c)).unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    *rest = after.trim_start();
    digits.replace('_', "").parse().ok()
}
