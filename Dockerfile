# ictcli with PyTorch on a CPU:
#   docker build -t ictcli .
#   docker run --rm -it -v "$PWD":/work ictcli train quickstart
FROM python:3.12-slim
COPY . /src
RUN pip install --no-cache-dir -c /src/constraints.txt \
      --extra-index-url https://download.pytorch.org/whl/cpu "/src[torch]" \
    && rm -rf /src
ENV HOME=/tmp
WORKDIR /work
ENTRYPOINT ["ictcli"]
CMD ["--help"]
