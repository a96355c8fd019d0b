"""What importing the room costs."""

import subprocess
import sys

HEAVY = ("torch", "transformers", "sentence_transformers", "onnxruntime", "onnx", "huggingface_hub")


def test_the_room_is_imported_without_what_only_some_configurations_use():
    program = (
        f"import sys, radixway.semantics.encoders; print([name for name in {HEAVY} if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
