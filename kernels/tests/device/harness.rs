//! Device, numbers and transfers.

use std::sync::OnceLock;

use half::{bf16, f16};
use lynx_kernels::cube::cubecl::{
    Device,
    features::TypeUsage,
    ir::{ElemType, FloatKind, IntKind},
    prelude::Client,
    std::tensor::TensorHandle,
};

pub(crate) const F32: ElemType = ElemType::Float(FloatKind::F32);
pub(crate) const F16: ElemType = ElemType::Float(FloatKind::F16);
pub(crate) const BF16: ElemType = ElemType::Float(FloatKind::BF16);
pub(crate) const I32: ElemType = ElemType::Int(IntKind::I32);

/// The device's client, or `None` and a message.
pub(crate) fn client() -> Option<Client> {
    static CLIENT: OnceLock<Option<Client>> = OnceLock::new();
    let client = CLIENT.get_or_init(|| {
        let device = Device::enumerate_all().into_iter().next()?;
        let client = device.client();
        println!("device: {device:?}, runtime: {}", client.name());
        println!("elements: {:?}", dtypes(&client));
        Some(client)
    });
    if client.is_none() {
        assert!(
            std::env::var_os("LYNX_REQUIRE_DEVICE").is_none(),
            "no device found, but one is required here"
        );
        println!("skipped: this machine has no device for the runtimes of this build");
    }
    client.clone()
}

/// The floating-point elements that the device can hold.
pub(crate) fn dtypes(client: &Client) -> Vec<ElemType> {
    [F32, F16, BF16]
        .into_iter()
        .filter(|&dtype| {
            let uses = client.features().type_usage(dtype);
            uses.contains(TypeUsage::Buffer) && uses.contains(TypeUsage::Conversion)
        })
        .collect()
}

/// `values` as `dtype` can hold them.
pub(crate) fn rounded(dtype: ElemType, values: &[f64]) -> Vec<f64> {
    decode(dtype, &encode(dtype, values))
}

pub(crate) fn upload(
    client: &Client,
    dtype: ElemType,
    shape: &[usize],
    values: &[f64],
) -> TensorHandle {
    assert_eq!(shape.iter().product::<usize>(), values.len());
    let handle = client.create_from_slice(&encode(dtype, values));
    TensorHandle::new_contiguous(shape.to_vec(), handle, dtype)
}

pub(crate) fn bytes(client: &Client, tensor: &TensorHandle) -> Vec<u8> {
    let read = client.read_one(tensor.handle.clone());
    read.expect("the device has run the kernels").to_vec()
}

/// The buffer of `tensor`, in the order of memory.
pub(crate) fn download(client: &Client, tensor: &TensorHandle) -> Vec<f64> {
    decode(tensor.dtype, &bytes(client, tensor))
}

fn encode(dtype: ElemType, values: &[f64]) -> Vec<u8> {
    let each = |encode: &dyn Fn(f64) -> Vec<u8>| values.iter().flat_map(|&v| encode(v)).collect();
    match dtype {
        F32 => each(&|v| (v as f32).to_le_bytes().to_vec()),
        F16 => each(&|v| f16::from_f64(v).to_le_bytes().to_vec()),
        BF16 => each(&|v| bf16::from_f64(v).to_le_bytes().to_vec()),
        I32 => each(&|v| (v as i32).to_le_bytes().to_vec()),
        other => panic!("{other} is not used here"),
    }
}

fn decode(dtype: ElemType, bytes: &[u8]) -> Vec<f64> {
    let word = |b: &[u8]| [b[0], b[1], b[2], b[3]];
    match dtype {
        F32 => bytes
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(word(b)).into())
            .collect(),
        F16 => bytes
            .chunks_exact(2)
            .map(|b| f16::from_le_bytes([b[0], b[1]]).into())
            .collect(),
        BF16 => bytes
            .chunks_exact(2)
            .map(|b| bf16::from_le_bytes([b[0], b[1]]).into())
            .collect(),
        I32 => bytes
            .chunks_exact(4)
            .map(|b| i32::from_le_bytes(word(b)).into())
            .collect(),
        other => panic!("{other} is not used here"),
    }
}

/// A small generator of test data: splitmix64, three of its values summed for a bell shape.
pub(crate) struct Data(pub(crate) u64);

impl Data {
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// `count` numbers of mean `offset` and about `spread` around it, as `dtype` holds them.
    pub(crate) fn floats(
        &mut self,
        dtype: ElemType,
        count: usize,
        offset: f64,
        spread: f64,
    ) -> Vec<f64> {
        let raw: Vec<f64> = (0..count)
            .map(|_| offset + spread * 2.0 * (self.unit() + self.unit() + self.unit() - 1.5))
            .collect();
        rounded(dtype, &raw)
    }
}

/// The derivative of the scalar function `f` in every coordinate, by central differences in `f64`.
pub(crate) fn finite_differences(at: &[f64], f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    const STEP: f64 = 1e-5;
    let mut point = at.to_vec();
    (0..at.len())
        .map(|i| {
            point[i] = at[i] + STEP;
            let above = f(&point);
            point[i] = at[i] - STEP;
            let below = f(&point);
            point[i] = at[i];
            (above - below) / (2.0 * STEP)
        })
        .collect()
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
