"""What a gateway without the semantic layer does not pay for at its start."""

import subprocess
import sys


def test_a_gateway_that_reads_no_texts_imports_nothing_that_would():
    program = (
        "import asyncio, sys\n"
        "from radixway.gateway.app import Gateway\n"
        "from radixway.core.config import Config\n"
        "async def main():\n"
        "    async with Gateway(Config()).running():\n"
        "        rooms = ('semantic', 'semantic_cache', 'encoders', 'config.semantic', 'guard.build',\n"
        "            'guard.pii')\n"
        "        print([room for room in rooms if f'radixway.{room}' in sys.modules])\n"
        "asyncio.run(main())\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ran.stdout.decode().strip() == "[]"
