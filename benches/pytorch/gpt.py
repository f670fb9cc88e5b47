"""The problem of `benches/src/frameworks/problem.rs` in PyTorch, as its users would write it.

Usage: gpt.py WEIGHTS.safetensors. Writes its version, then answers every line it reads with the
seconds and the loss of one training step.
"""

import json
import struct
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY, BATCH = 4, 256, 8, 256, 256, 8


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.projection = nn.Linear(WIDTH, WIDTH)
        self.mlp_norm = nn.LayerNorm(WIDTH)
        self.expand = nn.Linear(WIDTH, 4 * WIDTH)
        self.contract = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, seq, _ = x.shape
        parts = self.qkv(self.attention_norm(x)).split(WIDTH, 2)
        q, k, v = (part.view(batch, seq, HEADS, -1).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, seq, WIDTH))
        return x + self.contract(F.gelu(self.expand(self.mlp_norm(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.token_embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.position_embedding = nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.final_norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens):
        x = self.token_embedding(tokens) + self.position_embedding.weight
        for layer in self.layers:
            x = layer(x)
        return self.final_norm(x) @ self.token_embedding.weight.T


def load(model, path):
    """Burn's names and layouts: norms have gamma and beta, weights are [input, output]."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(length)), bytearray(file.read())
    header.pop("__metadata__", None)
    loaded = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensor = torch.frombuffer(data[begin:end], dtype=torch.float32)
        tensor = tensor.reshape(entry["shape"])
        if tensor.dim() == 2 and "embedding" not in name:
            tensor = tensor.T.contiguous()
        loaded[name.replace("gamma", "weight").replace("beta", "bias")] = tensor
    model.load_state_dict(loaded)


def main():
    model = Gpt()
    load(model, sys.argv[1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-8, weight_decay=1e-4)
    text = torch.tensor([(i * i // 3 + 7 * i) % 256 for i in range(4096)])
    starts = [row * 397 for row in range(BATCH)]
    tokens = torch.stack([text[s : s + CONTEXT] for s in starts])
    targets = torch.stack([text[s + 1 : s + 1 + CONTEXT] for s in starts])
    print(torch.__version__, torch.get_num_threads(), flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter()
        loss = F.cross_entropy(model(tokens).view(-1, VOCABULARY), targets.view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value = loss.item()
        print(time.perf_counter() - begin, value, flush=True)


main()
