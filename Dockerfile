# The planner alone: `docker run --rm -v "$PWD:/work" ac-advisor plan llama-3.2-1b`. First the wheel: scripts/wheel.
# The image is what scripts/image_root lays out (about 20 MB): the program, the C library's five files, a shell for
# CI jobs. A dry run needs a Python with PyTorch, so it is not for this image.
FROM debian:12-slim AS root
RUN apt-get update -q && apt-get install -q -y --no-install-recommends busybox-static python3
COPY scripts/image_root /
COPY dist/ac_advisor-*-manylinux_2_28_*.whl /dist/
RUN /image_root /dist/ac_advisor-*.whl /image

FROM scratch
COPY --from=root /image /
WORKDIR /work
ENTRYPOINT ["ac-advisor"]
