//! A `libnvidia-ml.so.1` that says what a file tells it to: for tests of everything that rests on
//! NVML, on machines that have none. Built by `fake.rs` beside it, which also documents the file.
//!
//! The file is called `control` and lies beside the library, so that tests in one process can each
//! have a library of their own. It is read anew at every call. The functions, their return values
//! and structures are those of NVIDIA's nvml.h, as far as nvml-wrapper calls them.

#![allow(non_snake_case)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const SUCCESS: c_int = 0;
const INVALID_ARGUMENT: c_int = 2;
const NOT_SUPPORTED: c_int = 3;
const INSUFFICIENT_SIZE: c_int = 7;
const GPU_IS_LOST: c_int = 15;

/// What a device has where the file says nothing else.
const TOTAL: u64 = 24 << 30;
const RESERVED: u64 = 600 << 20;
const NOT_AVAILABLE: u64 = u64::MAX;

#[repr(C)]
pub struct Memory {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[repr(C)]
pub struct Process {
    pid: c_uint,
    used: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

#[repr(C)]
pub struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

#[repr(C)]
struct Symbol {
    file: *const c_char,
    base: *mut c_void,
    name: *const c_char,
    address: *mut c_void,
}

unsafe extern "C" {
    fn dladdr(address: *const c_void, symbol: *mut Symbol) -> c_int;
}

/// The file beside this library.
fn control_path() -> Option<PathBuf> {
    let mut symbol = Symbol {
        file: std::ptr::null(),
        base: std::ptr::null_mut(),
        name: std::ptr::null(),
        address: std::ptr::null_mut(),
    };
    let here = control_path as fn() -> Option<PathBuf> as *const c_void;
    // SAFETY: `symbol` is a Dl_info; on success the name lives as long as this library.
    let library = unsafe {
        if dladdr(here, &mut symbol) == 0 || symbol.file.is_null() {
            return None;
        }
        CStr::from_ptr(symbol.file)
    };
    let library = Path::new(OsStr::from_bytes(library.to_bytes()));
    Some(library.parent()?.join("control"))
}

/// The file's lines as words.
struct Control(Vec<Vec<String>>);

impl Control {
    fn read() -> Control {
        let text = control_path().and_then(|path| fs::read_to_string(path).ok());
        let text = text.unwrap_or_default();
        let words = |line: &str| line.split_whitespace().map(String::from).collect();
        Control(text.lines().map(words).collect())
    }

    /// The words behind each line that begins with `name`.
    fn all(&self, name: &str) -> impl Iterator<Item = &[String]> + use<'_> {
        let name = name.to_string();
        let lines = self.0.iter().filter(move |line| line.first() == Some(&name));
        lines.map(|line| &line[1..])
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.all(name).last()?.first().map(String::as_str)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// The number behind `name DEVICE`.
    fn of(&self, name: &str, device: u64) -> Option<u64> {
        let lines = self.all(name).filter(|line| number(line, 0) == Some(device));
        lines.last().and_then(|line| number(line, 1))
    }

    fn has(&self, name: &str, word: &str) -> bool {
        self.all(name).any(|line| line.first().is_some_and(|first| first == word))
    }

    /// How long ago the file was written.
    fn age(&self) -> Duration {
        let written = control_path().and_then(|path| fs::metadata(path).ok()?.modified().ok());
        written.and_then(|at| at.elapsed().ok()).unwrap_or_default()
    }
}

fn number(line: &[String], place: usize) -> Option<u64> {
    line.get(place)?.parse().ok()
}

/// What every call does first: hang, crash or fail as the file says. `call` is its name there.
fn enter(call: &str) -> (Control, c_int) {
    let control = Control::read();
    if control.has("crash", call) {
        // SAFETY: none; taking the process down is what is asked for.
        unsafe { std::ptr::null_mut::<u8>().write_volatile(1) };
    }
    while Control::read().has("hang", call) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let failing = control.all("error").find(|line| line.first().is_some_and(|w| w == call));
    let code = failing.and_then(|line| number(line, 1)).unwrap_or(0) as c_int;
    (control, code)
}

/// Handles: 1 + the device's index; a slice's has 1000 × (1 + its slot) added.
fn device_of(handle: *mut c_void) -> u64 {
    (handle as u64).saturating_sub(1) % 1_000
}

fn slot_of(handle: *mut c_void) -> Option<u64> {
    ((handle as u64) / 1_000).checked_sub(1)
}

/// What every call on a device does first.
fn enter_device(call: &str, handle: *mut c_void) -> (Control, c_int) {
    let (control, code) = enter(call);
    let lost = control.has("lost", &device_of(handle).to_string());
    (control, if lost { GPU_IS_LOST } else { code })
}

/// # Safety
/// `buffer` must have room for `length` bytes.
unsafe fn put_text(text: &str, buffer: *mut c_char, length: c_uint) -> c_int {
    if text.len() >= length as usize {
        return INSUFFICIENT_SIZE;
    }
    // SAFETY: it fits, with the NUL, as was just seen.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, text.len());
        *buffer.add(text.len()) = 0;
    }
    SUCCESS
}

/// # Safety
/// `place` must be valid to write to.
unsafe fn answer<T>(code: c_int, place: *mut T, value: T) -> c_int {
    if code == SUCCESS {
        // SAFETY: the caller's promise.
        unsafe { place.write(value) };
    }
    code
}

#[cfg(not(without_init))]
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> c_int {
    enter("init").1
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> c_int {
    enter("shutdown").1
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(text: *mut c_char, length: c_uint) -> c_int {
    let (control, code) = enter("driver");
    let version = control.text("driver").unwrap_or("580.00");
    if code == SUCCESS { unsafe { put_text(version, text, length) } } else { code }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> c_int {
    let (control, code) = enter("count");
    unsafe { answer(code, count, control.number("devices").unwrap_or(1) as c_uint) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(
    index: c_uint,
    handle: *mut *mut c_void,
) -> c_int {
    let (control, code) = enter("handle");
    if u64::from(index) >= control.number("devices").unwrap_or(1) {
        return INVALID_ARGUMENT;
    }
    let code = match control.has("unreachable", &index.to_string()) {
        true => GPU_IS_LOST,
        false => code,
    };
    unsafe { answer(code, handle, (index as usize + 1) as *mut c_void) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(
    handle: *mut c_void,
    text: *mut c_char,
    length: c_uint,
) -> c_int {
    let (control, code) = enter("uuid");
    let device = device_of(handle);
    let told = control.all("uuid").find(|line| number(line, 0) == Some(device));
    let uuid = match (slot_of(handle), told.and_then(|line| line.get(1))) {
        (Some(slot), _) => format!("MIG-00000000-0000-0000-{slot:04}-{device:012}"),
        (None, Some(uuid)) => uuid.clone(),
        (None, None) => format!("GPU-00000000-0000-0000-0000-{device:012}"),
    };
    if code == SUCCESS { unsafe { put_text(&uuid, text, length) } } else { code }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(
    handle: *mut c_void,
    text: *mut c_char,
    length: c_uint,
) -> c_int {
    let (_, code) = enter("name");
    let name = match slot_of(handle) {
        Some(_) => "Fake GPU MIG 1g.6gb",
        None => "Fake GPU",
    };
    if code == SUCCESS { unsafe { put_text(name, text, length) } } else { code }
}

/// The bytes that processes of the file hold on `device`: of those that are tied to a living
/// process (`holds`), what is still held counts.
fn held(control: &Control, device: u64) -> u64 {
    let lines = control.all("holds").filter(|line| number(line, 0) == Some(device));
    lines.filter(|line| is_alive(line)).filter_map(|line| number(line, 2)).sum()
}

fn is_alive(line: &[String]) -> bool {
    number(line, 1).is_some_and(|pid| Path::new("/proc").join(pid.to_string()).exists())
}

#[cfg(not(without_memory_v2))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(
    handle: *mut c_void,
    memory: *mut Memory,
) -> c_int {
    let (control, code) = enter_device("memory", handle);
    let device = device_of(handle);
    let total = control.number("total").unwrap_or(TOTAL);
    let reserved = control.number("reserved").unwrap_or(RESERVED.min(total));
    let mut used = control.of("used", device).unwrap_or(0) + held(&control, device);
    for line in control.all("falls").filter(|line| number(line, 0) == Some(device)) {
        let after = Duration::from_millis(number(line, 1).unwrap_or(0));
        if control.age() >= after {
            used = number(line, 2).unwrap_or(0);
        }
    }
    let version = unsafe { (*memory).version };
    let answered = Memory {
        version,
        total,
        reserved,
        free: total.saturating_sub(reserved).saturating_sub(used),
        used,
    };
    unsafe { answer(code, memory, answered) }
}

/// # Safety
/// As NVML's own: `list` has room for `*count` processes, or is null.
unsafe fn put_processes(
    control: &Control,
    list_name: &str,
    handle: *mut c_void,
    count: *mut c_uint,
    list: *mut Process,
) -> c_int {
    if let Some(absurd) = control.number("processes") {
        unsafe { *count = absurd as c_uint };
        return INSUFFICIENT_SIZE;
    }
    let device = device_of(handle);
    let named = control.all(list_name).filter(|line| number(line, 0) == Some(device));
    let alive = control.all("holds").filter(|line| {
        list_name == "process" && number(line, 0) == Some(device) && is_alive(line)
    });
    let all: Vec<Process> = named
        .chain(alive)
        .map(|line| Process {
            pid: number(line, 1).unwrap_or(0) as c_uint,
            used: number(line, 2).unwrap_or(NOT_AVAILABLE),
            gpu_instance: c_uint::MAX,
            compute_instance: c_uint::MAX,
        })
        .collect();
    let room = unsafe { std::mem::replace(&mut *count, all.len() as c_uint) };
    if all.is_empty() {
        return SUCCESS;
    }
    if list.is_null() || (room as usize) < all.len() {
        return INSUFFICIENT_SIZE;
    }
    for (place, process) in all.into_iter().enumerate() {
        unsafe { list.add(place).write(process) };
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    handle: *mut c_void,
    count: *mut c_uint,
    list: *mut Process,
) -> c_int {
    let (control, code) = enter_device("processes", handle);
    if code != SUCCESS {
        return code;
    }
    unsafe { put_processes(&control, "process", handle, count, list) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    handle: *mut c_void,
    count: *mut c_uint,
    list: *mut Process,
) -> c_int {
    let (control, code) = enter_device("graphics", handle);
    if code != SUCCESS {
        return code;
    }
    unsafe { put_processes(&control, "graphics", handle, count, list) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(
    handle: *mut c_void,
    rates: *mut Utilization,
) -> c_int {
    let (control, code) = enter_device("utilization", handle);
    let code = if slot_of(handle).is_some() { NOT_SUPPORTED } else { code };
    let gpu = control.number("busy").unwrap_or(50) as c_uint;
    unsafe { answer(code, rates, Utilization { gpu, memory: 10 }) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTemperature(
    handle: *mut c_void,
    _sensor: c_uint,
    degrees: *mut c_uint,
) -> c_int {
    let (_, code) = enter_device("temperature", handle);
    let code = if slot_of(handle).is_some() { NOT_SUPPORTED } else { code };
    unsafe { answer(code, degrees, 61) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPowerUsage(
    handle: *mut c_void,
    milliwatts: *mut c_uint,
) -> c_int {
    let (_, code) = enter_device("power", handle);
    let code = if slot_of(handle).is_some() { NOT_SUPPORTED } else { code };
    unsafe { answer(code, milliwatts, 312_500) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    handle: *mut c_void,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> c_int {
    let (control, _) = enter("mig");
    let Some(slices) = control.of("mig", device_of(handle)) else {
        return NOT_SUPPORTED;
    };
    let mode = c_uint::from(slices > 0);
    unsafe {
        *current = mode;
        *pending = mode;
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMaxMigDeviceCount(
    _handle: *mut c_void,
    count: *mut c_uint,
) -> c_int {
    unsafe { answer(enter("mig").1, count, 7) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    handle: *mut c_void,
    slot: c_uint,
    slice: *mut *mut c_void,
) -> c_int {
    let (control, code) = enter("mig");
    let slices = control.of("mig", device_of(handle)).unwrap_or(0);
    if u64::from(slot) >= slices {
        return 6; // NVML_ERROR_NOT_FOUND
    }
    let number = handle as usize + 1_000 * (slot as usize + 1);
    unsafe { answer(code, slice, number as *mut c_void) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(
    slice: *mut c_void,
    whole: *mut *mut c_void,
) -> c_int {
    unsafe { answer(enter("mig").1, whole, (slice as usize % 1_000) as *mut c_void) }
}
