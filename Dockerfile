# Hermes as compose.yaml starts it: `docker build -t hermes-agent:local .`
FROM python:3.13-slim
RUN apt-get update && apt-get install --yes --no-install-recommends \
      bash git iproute2 openssl procps \
    && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN pip install --no-cache-dir "/src[chat,postgres]" && rm -rf /src
RUN useradd --uid 1000 --create-home hermes && install -d -o hermes -g hermes /app/data /app/data/skills
USER hermes
WORKDIR /app/data
ENV PERSISTENT_DIR=/app/data
EXPOSE 8080
CMD ["hermes", "up"]
