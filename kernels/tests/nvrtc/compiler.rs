//! NVRTC, loaded at run time.

use std::{
    ffi::{CStr, CString, c_char, c_int},
    path::{Path, PathBuf},
    ptr,
};

use libloading::{Library, Symbol};

/// Handle of a program, as NVRTC declares it.
type Program = *mut std::ffi::c_void;

/// The compiler, and the headers that generated code includes.
pub(crate) struct Nvrtc {
    library: Library,
    headers: PathBuf,
}

/// What a compilation made.
pub(crate) struct Made {
    /// Size of the machine code.
    pub(crate) bytes: usize,
    /// What the assembler says of registers and shared memory, on one line.
    pub(crate) remarks: String,
}

impl Nvrtc {
    /// The one in the folder that `LYNX_NVRTC` names.
    pub(crate) fn find() -> Option<Self> {
        let root = PathBuf::from(std::env::var_os("LYNX_NVRTC")?);
        let file = newest(&root.join("lib"))?;
        // SAFETY: NVIDIA's library has no initialisers that ask anything of the loading program.
        let library = unsafe { Library::new(&file) }
            .unwrap_or_else(|error| panic!("{} cannot be loaded: {error}", file.display()));
        Some(Self {
            library,
            headers: root.join("include"),
        })
    }

    /// Compiles `source` to machine code of the given compute capability, or returns the log.
    pub(crate) fn compile(&self, source: &str, capability: u32) -> Result<Made, String> {
        // The variant that CubeCL asks for: with what only this architecture has.
        let suffix = if capability >= 90 { "a" } else { "" };
        let options = [
            format!("--gpu-architecture=sm_{capability}{suffix}"),
            format!("--include-path={}", self.headers.display()),
            "--ptxas-options=-v".to_owned(),
        ]
        .map(|option| CString::new(option).expect("no zero inside"));
        let options = options.each_ref().map(|option| option.as_ptr());
        let source = CString::new(source).expect("no zero inside");
        let mut program: Program = ptr::null_mut();
        // SAFETY: the signatures are those of `nvrtc.h`; strings outlive the calls, and the program
        // is not used after it is destroyed.
        unsafe {
            type Create = unsafe extern "C" fn(
                *mut Program,
                *const c_char,
                *const c_char,
                c_int,
                *const *const c_char,
                *const *const c_char,
            ) -> c_int;
            type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
            type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
            let create = self.function::<Create>(b"nvrtcCreateProgram\0");
            let compile = self.function::<Compile>(b"nvrtcCompileProgram\0");
            let destroy = self.function::<Destroy>(b"nvrtcDestroyProgram\0");
            let source = source.as_ptr();
            let status = create(
                &mut program,
                source,
                ptr::null(),
                0,
                ptr::null(),
                ptr::null(),
            );
            assert_eq!(status, 0, "nvrtcCreateProgram");
            let status = compile(program, options.len() as c_int, options.as_ptr());
            let log = self.log(program);
            let bytes = self.size(program, b"nvrtcGetCUBINSize\0");
            destroy(&mut program);
            if status == 0 {
                let worth = |line: &&str| line.contains("registers") || line.contains("spill");
                let remarks: Vec<&str> = log.lines().filter(worth).map(str::trim).collect();
                Ok(Made {
                    bytes,
                    remarks: remarks.join("; "),
                })
            } else {
                Err(log)
            }
        }
    }

    fn log(&self, program: Program) -> String {
        type Get = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
        let mut log: Vec<u8> = vec![0; self.size(program, b"nvrtcGetProgramLogSize\0") + 1];
        // SAFETY: the signature is that of `nvrtc.h`, and the buffer has the size it asked for.
        unsafe { self.function::<Get>(b"nvrtcGetProgramLog\0")(program, log.as_mut_ptr().cast()) };
        let text = CStr::from_bytes_until_nul(&log).expect("one zero at least");
        text.to_string_lossy().into_owned()
    }

    fn size(&self, program: Program, name: &[u8]) -> usize {
        type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
        let mut size = 0;
        // SAFETY: the signature is that of `nvrtc.h`.
        unsafe { self.function::<Size>(name)(program, &mut size) };
        size
    }

    /// A function of the library.
    ///
    /// # Safety
    ///
    /// `F` must be its signature.
    unsafe fn function<F>(&self, name: &[u8]) -> Symbol<'_, F> {
        // SAFETY: promised by the caller.
        unsafe { self.library.get(name) }.expect("every NVRTC since CUDA 11.2 has it")
    }
}

/// The compiler's library in `folder`, whatever its version.
fn newest(folder: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(folder).ok()?;
    let mut found: Vec<PathBuf> = files
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libnvrtc.so")
        })
        .collect();
    found.sort();
    found.pop()
}
