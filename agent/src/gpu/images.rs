//! Code of the kernels for one device: of the images in this program that of its chip, else PTX, else what was compiled
//! before or is compiled now.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaModule};
use cudarc::nvrtc::Ptx;
use kvscope_kernels::{Nvrtc, Source, TARGETS, Target};

use super::GpuError;
use crate::home;

/// The images that release builds carry; `cargo xtask kernels` makes them.
#[cfg(feature = "embed-kernels")]
#[derive(rust_embed::RustEmbed)]
#[folder = "../target/kernels"]
struct Embedded;

/// Where code for one target comes from.
pub(super) struct Images {
    target: Target,
    nvrtc: RefCell<Option<Nvrtc>>,
    origin: RefCell<Option<String>>,
}

/// Code that may run on the device.
struct Image {
    bytes: Vec<u8>,
    target: Target,
    origin: String,
}

impl Images {
    pub(super) fn of(target: Target) -> Self {
        Self { target, nvrtc: RefCell::default(), origin: RefCell::default() }
    }

    /// Where the last loaded code came from.
    pub(super) fn origin(&self) -> Option<String> {
        self.origin.borrow().clone()
    }

    /// Loads a file of kernels: the first image that the driver takes.
    pub(super) fn load(
        &self,
        source: &Source,
        context: &Arc<CudaContext>,
    ) -> Result<Arc<CudaModule>, GpuError> {
        let mut refused = None;
        for image in self.at_hand(source) {
            match take(&image, context) {
                Ok(module) => return Ok(self.loaded(module, image.origin)),
                Err(error) => refused = Some(error),
            }
        }
        let image = match (self.compile(source), refused) {
            (Ok(image), _) => image,
            // What the driver said of an image at hand is nearer to the cause than that there is no compiler.
            (Err(_), Some(refused)) => return Err(refused),
            (Err(error), None) => return Err(error),
        };
        Ok(self.loaded(take(&image, context)?, image.origin))
    }

    fn loaded(&self, module: Arc<CudaModule>, origin: String) -> Arc<CudaModule> {
        *self.origin.borrow_mut() = Some(origin);
        module
    }

    /// What needs no compiler, the best first.
    fn at_hand(&self, source: &Source) -> Vec<Image> {
        let portable = TARGETS.into_iter().filter(|target| target.is_portable() && *target != self.target);
        let embedded =
            std::iter::once(self.target).chain(portable).filter_map(|target| embedded(source, target));
        let kept = folder(self.target).ok().and_then(|folder| kept(source, self.target, &folder));
        embedded.chain(kept).collect()
    }

    /// Compiles it now and keeps it for the next time.
    fn compile(&self, source: &Source) -> Result<Image, GpuError> {
        let mut nvrtc = self.nvrtc.borrow_mut();
        if nvrtc.is_none() {
            *nvrtc = Some(Nvrtc::find(None).map_err(|error| {
                GpuError::Image(format!(
                    "this program holds no images of the kernels for this device, and {error}"
                ))
            })?);
        }
        let nvrtc = nvrtc.as_ref().expect("found above");
        let compiled =
            nvrtc.compile(source, self.target).map_err(|error| GpuError::Image(error.to_string()))?;
        // A folder that cannot be written costs the next start a second.
        if let Ok(folder) = folder(self.target) {
            keep(&folder, &source.image_name(self.target, &nvrtc.version()), &compiled.image);
        }
        let origin = format!("compiled for {} by NVRTC {}", self.target.name(), nvrtc.version());
        Ok(Image { bytes: compiled.image, target: self.target, origin })
    }
}

fn take(image: &Image, context: &Arc<CudaContext>) -> Result<Arc<CudaModule>, GpuError> {
    let mut bytes = image.bytes.clone();
    if image.target.is_portable() {
        // PTX is a text of C.
        bytes.push(0);
    }
    let loaded = context.load_module(Ptx::from_binary(bytes));
    loaded.map_err(|error| GpuError::of("load the kernels", error))
}

#[cfg(feature = "embed-kernels")]
fn embedded(source: &Source, target: Target) -> Option<Image> {
    let begin = format!("{}/", target.name());
    let names = Embedded::iter().filter(|name| name.starts_with(&begin));
    let name = names.into_iter().find(|name| source.is_image(target, &name[begin.len()..]))?;
    let bytes = Embedded::get(&name)?.data.into_owned();
    Some(Image { bytes, target, origin: format!("in this program for {}", target.name()) })
}

#[cfg(not(feature = "embed-kernels"))]
fn embedded(_source: &Source, _target: Target) -> Option<Image> {
    None
}

fn folder(target: Target) -> Result<PathBuf, crate::failure::Failure> {
    Ok(home::kernels()?.join(target.name()))
}

/// An image of exactly this text that was compiled before.
fn kept(source: &Source, target: Target, folder: &Path) -> Option<Image> {
    let names = fs::read_dir(folder).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let name = names.into_iter().find(|name| source.is_image(target, name))?;
    let bytes = fs::read(folder.join(&name)).ok().filter(|bytes| !bytes.is_empty())?;
    Some(Image { bytes, target, origin: format!("compiled before for {}", target.name()) })
}

fn keep(folder: &Path, name: &str, bytes: &[u8]) {
    // A new name first: a process that reads meanwhile finds a whole image or none.
    let partial = folder.join(format!("{name}.{}.part", std::process::id()));
    let written = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&partial, bytes))
        .and_then(|()| fs::rename(&partial, folder.join(name)));
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
}

#[cfg(test)]
mod tests {
    use kvscope_kernels::SOURCES;

    use super::*;

    #[test]
    fn an_image_is_kept_under_its_text_and_target_and_found_by_them() {
        let folder = tempfile::tempdir().unwrap();
        let (source, other) = (&SOURCES[0], &SOURCES[1]);
        let target: Target = "sm_90a".parse().unwrap();
        assert!(kept(source, target, folder.path()).is_none());
        keep(folder.path(), &source.image_name(target, "13.0"), b"code");
        assert_eq!(kept(source, target, folder.path()).unwrap().bytes, b"code");
        assert!(kept(other, target, folder.path()).is_none());
        assert!(kept(source, "sm_80".parse().unwrap(), folder.path()).is_none());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no part is left");
        // What a full disk left is no image.
        fs::write(folder.path().join(other.image_name(target, "13.0")), b"").unwrap();
        assert!(kept(other, target, folder.path()).is_none());
    }
}
