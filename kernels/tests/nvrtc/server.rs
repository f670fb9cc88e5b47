//! A device that compiles what is launched on it, and does nothing else.

use std::sync::{Arc, Mutex};

use cubecl_common::{
    bytes::Bytes,
    device::{DeviceId, DeviceService, ServerUtilitiesHandle, ServiceId},
    profile::{ProfileDuration, TimingMethod},
};
use cubecl_cpp::{
    register_supported_types,
    shared::{CompilationOptions, CppCompiler, CppSupportedFeatures},
    target::Cuda,
};
use cubecl_environment::stream::StreamId;
use cubecl_runtime::{
    compiler::Compiler,
    dry_run::LaunchMode,
    kernel::{CubeKernel, define_kernel},
    logging::ServerLogger,
    memory_management::{ManagedMemoryHandle, MemoryAllocationMode, StreamMemoryReport},
    server::{
        BufferBinding, CopyDescriptor, CubeCount, Handle, IoError, KernelArguments, MemoryLayout,
        MemoryLayoutDescriptor, MemoryLayoutPolicy, ProfileError, ProfilingToken, Server,
        ServerCommunication, ServerError, ServerStorage, ServerUtilities,
    },
    storage::{ComputeStorage, ManagedResource, StorageHandle, StorageId},
};
use lynx_kernels::cube::cubecl::{
    future::DynFut,
    ir::{DeviceIdentity, DeviceProperties, HardwareProperties, MemoryDeviceProperties},
    prelude::Client,
    std::tensor::compact_strides,
};

/// Name and CUDA source, or the reason why there is none, of every launch.
pub(crate) type Sources = Arc<Mutex<Vec<(String, Result<String, String>)>>>;

/// A client of a GPU of this compute capability, as CubeCL describes it to kernels.
pub(crate) fn connect(capability: u32, shared: usize) -> (Client, Sources) {
    // No other device has this kind.
    let device = DeviceId::new(30, capability as u16);
    let mut properties = DeviceProperties::new(
        Default::default(),
        MemoryDeviceProperties::new(16 << 30, 512),
        HardwareProperties {
            load_width: 128,
            vector_register_count: None,
            plane_size_min: 32,
            plane_size_max: 32,
            max_bindings: 1024,
            max_shared_memory_size: shared,
            max_cube_count: (i32::MAX as u32, 65535, 65535),
            max_units_per_cube: 1024,
            max_cube_dim: (1024, 1024, 64),
            num_streaming_multiprocessors: Some(132),
            num_tensor_cores: None,
            min_tensor_cores_dim: None,
            num_cpu_cores: None,
            last_level_cache_size: None,
            max_vector_size: usize::MAX,
            cube_mma_reserved_shared_memory: 0,
        },
        TimingMethod::Device,
        DeviceIdentity::default(),
    );
    register_supported_types(&mut properties);
    let (utilities, _captures) = ServerUtilities::init(
        ServiceId::of::<CompilingServer>(device),
        "cuda, compiling only",
        properties,
        Default::default(),
        Arc::new(ServerLogger::default()),
        Contiguous,
    );
    let sources = Sources::default();
    let server = CompilingServer {
        options: CompilationOptions {
            warp_size: 32,
            supports_features: CppSupportedFeatures {
                fast_math: true,
                fast_tanh: true,
                dp4a: true,
                grid_constants: true,
                clusters: capability >= 90,
                elect_sync: capability >= 90,
            },
            ..Default::default()
        },
        utilities: Arc::new(utilities),
        sources: Arc::clone(&sources),
    };
    let client = Client::try_init(device, server).expect("the first one of its kind");
    (client, sources)
}

#[derive(Debug)]
struct CompilingServer {
    options: CompilationOptions,
    utilities: Arc<ServerUtilities>,
    sources: Sources,
}

fn nothing_here() -> IoError {
    IoError::UnsupportedIoOperation {
        backtrace: Default::default(),
    }
}

impl DeviceService for CompilingServer {
    fn init(_: DeviceId) -> Self {
        unreachable!("the client brings its server along")
    }

    fn utilities(&self) -> ServerUtilitiesHandle {
        Arc::clone(&self.utilities) as ServerUtilitiesHandle
    }
}

impl ServerCommunication for CompilingServer {}

impl Server for CompilingServer {
    unsafe fn launch(
        &mut self,
        kernel: Box<dyn CubeKernel>,
        _: CubeCount,
        _: KernelArguments,
        _: StreamId,
        _: LaunchMode,
    ) {
        let source = define_kernel(&*kernel)
            .and_then(|definition| {
                CppCompiler::<Cuda>::default().compile(definition, &self.options)
            })
            .map(|made| made.to_string())
            .map_err(|error| error.to_string());
        let mut sources = self.sources.lock().expect("the reader does not panic");
        sources.push((kernel.name().to_owned(), source));
    }

    fn initialize_memory(
        &mut self,
        _: ManagedMemoryHandle,
        _: u64,
        _: StreamId,
    ) -> Result<(), ServerError> {
        Ok(())
    }

    fn logger(&self) -> Arc<ServerLogger> {
        Arc::clone(&self.utilities.logger)
    }

    fn utilities(&self) -> Arc<ServerUtilities> {
        Arc::clone(&self.utilities)
    }

    fn read(
        &mut self,
        _: Vec<CopyDescriptor>,
        _: StreamId,
    ) -> DynFut<Result<Vec<Bytes>, ServerError>> {
        Box::pin(std::future::ready(Err(nothing_here().into())))
    }

    fn write(&mut self, _: Vec<(CopyDescriptor, Bytes)>, _: StreamId) {}

    fn sync(&mut self, _: Vec<BufferBinding>, _: StreamId) -> DynFut<Result<(), ServerError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn check(&mut self, _: Vec<BufferBinding>, _: StreamId) -> Result<(), ServerError> {
        Ok(())
    }

    fn flush(&mut self, _: StreamId) -> Result<(), ServerError> {
        Ok(())
    }

    fn memory_report(&mut self, _: StreamId) -> Option<StreamMemoryReport> {
        None
    }

    fn memory_cleanup(&mut self, _: StreamId) -> Result<(), ServerError> {
        Ok(())
    }

    fn start_profile(&mut self, _: StreamId) -> Result<ProfilingToken, ServerError> {
        Err(nothing_here().into())
    }

    fn end_profile(
        &mut self,
        _: StreamId,
        _: ProfilingToken,
    ) -> Result<ProfileDuration, ProfileError> {
        Err(ProfileError::from(&ServerError::from(nothing_here())))
    }

    fn allocation_mode(&mut self, _: MemoryAllocationMode, _: StreamId) {}
}

impl ServerStorage for CompilingServer {
    type Storage = Nowhere;

    fn get_resource(
        &mut self,
        _: BufferBinding,
        _: StreamId,
    ) -> Result<ManagedResource<()>, ServerError> {
        Err(nothing_here().into())
    }
}

/// Memory that does not exist.
struct Nowhere;

impl ComputeStorage for Nowhere {
    type Resource = ();

    fn alignment(&self) -> usize {
        512
    }

    fn get(&mut self, _: &StorageHandle) -> Result<(), IoError> {
        Err(nothing_here())
    }

    fn alloc(&mut self, _: u64) -> Result<StorageHandle, IoError> {
        Err(nothing_here())
    }

    fn dealloc(&mut self, _: StorageId) {}

    fn flush(&mut self) {}

    fn bytes_allocated(&self) -> u64 {
        0
    }
}

/// One tensor a buffer, its elements next to each other.
struct Contiguous;

impl MemoryLayoutPolicy for Contiguous {
    fn apply(
        &self,
        service: ServiceId,
        stream: StreamId,
        descriptors: &[MemoryLayoutDescriptor],
    ) -> (Handle, Vec<MemoryLayout>) {
        let [only] = descriptors else {
            panic!("the launches here make one tensor at a time");
        };
        let bytes = only.shape.iter().product::<usize>() * only.elem_size;
        let handle = Handle::new(service, stream, bytes as u64);
        let layout = MemoryLayout::new(handle.clone(), compact_strides(&only.shape));
        (handle, vec![layout])
    }
}
