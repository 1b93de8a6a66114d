"""Maps receipts with ethereum-etl, as its own export does.

`python _peer_ethereum_etl.py FILE ROUNDS` runs it.

The program prints CPU seconds, the number of logs and the transfers as JSON. It runs in a virtual environment of its
own, in which Headwater is not installed.
"""

import json
import sys
import time
from pathlib import Path

from ethereumetl.mappers.receipt_log_mapper import EthReceiptLogMapper
from ethereumetl.mappers.receipt_mapper import EthReceiptMapper
from ethereumetl.mappers.token_transfer_mapper import EthTokenTransferMapper
from ethereumetl.service.token_transfer_extractor import EthTokenTransferExtractor


def main() -> None:
    """Map all receipts once per round and print the result of the fastest round."""
    encoded_blocks = [json.dumps(receipts) for receipts in json.loads(Path(sys.argv[1]).read_text())]
    receipt_mapper, log_mapper = EthReceiptMapper(), EthReceiptLogMapper()
    extractor, transfer_mapper = EthTokenTransferExtractor(), EthTokenTransferMapper()
    times: list[float] = []
    for _ in range(int(sys.argv[2])):
        logs, transfers = 0, []
        started = time.process_time()
        for encoded_block in encoded_blocks:
            for receipt in json.loads(encoded_block):
                for log in receipt_mapper.json_dict_to_receipt(receipt).logs:
                    json.dumps(log_mapper.receipt_log_to_dict(log))
                    logs += 1
                    transfer = extractor.extract_transfer_from_log(log)
                    if transfer is not None:
                        json.dumps(transfer_mapper.token_transfer_to_dict(transfer))
                        transfers.append(transfer)
        times.append(time.process_time() - started)
    names = ("token_address", "from_address", "to_address", "value", "transaction_hash", "log_index")
    rows = [[getattr(transfer, name) for name in names] for transfer in transfers]
    print(json.dumps({"seconds": min(times), "logs": logs, "transfers": rows}))


if __name__ == "__main__":
    main()
