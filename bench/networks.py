"""Networks of bench/runtime and bench/gpu, by their names in bench/torch_step."""

NETWORKS = {
    "mlp2048": "mlp:layers=4,hidden=2048,inputs=2048,outputs=2048",
    "mlp8192": "mlp:layers=4,hidden=8192,inputs=8192,outputs=8192",
    "bert": "bert_large:layers=4,hidden=512,heads=8,ffn=2048,seq=128,vocab=1000",
    "llama": "llama3_8b:layers=4,seq=2048,vocab=32000",
    "dlrm": "dlrm:tables=8,rows=100000,dim=64,dense=64,bag=1,bottom=512-512-64,top=1024-1024-1024-1",
    "resnet50": "resnet50:image=64",
    "resnext50": "resnext50:image=64",
}
CONVOLUTIONAL = ["resnet50", "resnext50"]
